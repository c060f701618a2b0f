package config

import (
	_ "embed"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

//go:embed starter.yaml
var starter string

// StarterName is what a configuration without a file is called in errors.
const StarterName = "the configuration that pawl init writes"

// Starter returns the configuration file to begin with, for a directory: it works as it stands.
func Starter(dir string) ([]byte, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("find the directory of the configuration: %w", err)
	}
	audit := strconv.Quote(filepath.Join(dir, DefaultData, "audit.jsonl")) // absolute: adapters run in a directory of their own
	return []byte(strings.ReplaceAll(starter, "{{AUDIT}}", audit)), nil
}

// LoadStarter is [LoadWith] where there is no file: of what [Starter] would write into the working directory.
func LoadStarter(environ []string) (Config, error) {
	text, err := Starter(".")
	if err != nil {
		return Config{}, err
	}
	c, err := read(StarterName, text, environ)
	return c, err
}
