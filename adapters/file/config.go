package file

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
)

// Config is the configuration of one channel.
type Config struct {
	// Path is the file that lines are appended to; absolute. It is made if it does not exist; its directory must exist.
	// Several channels and several processes may append to one file.
	Path string `json:"path"`
}

func parseConfig(raw json.RawMessage) (Config, error) {
	var c Config
	if len(bytes.TrimSpace(raw)) == 0 {
		raw = json.RawMessage("{}")
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&c); err != nil {
		return c, fmt.Errorf("file: configuration: %w (the only key is path)", err)
	}
	return c, c.Validate()
}

// Validate names the first field that is wrong and how to mend it.
func (c Config) Validate() error {
	if c.Path == "" {
		return errors.New("file: path is missing: name the file to append to")
	}
	if !filepath.IsAbs(c.Path) {
		return fmt.Errorf("file: path %q is relative: use an absolute path, adapters run in a directory of their own", c.Path)
	}
	return nil
}
