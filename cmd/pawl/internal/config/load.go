package config

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/providers/rawbytes"
	"github.com/knadh/koanf/v2"
)

// MaxFile bounds a configuration file, in bytes.
const MaxFile = 1 << 20

// Load reads the file, and what the environment overrides. An empty name means no file. Every fault is in one [*Error].
func Load(file string) (Config, error) { return LoadWith(file, os.Environ()) }

// LoadWith is [Load] with an environment of "NAME=value".
func LoadWith(file string, environ []string) (Config, error) {
	var text []byte
	if file != "" {
		read, err := readFile(file)
		if err != nil {
			return Config{}, fmt.Errorf("read the configuration: %w", err)
		}
		text = read
	}
	return read(file, text, environ)
}

// readFile reads no more than a configuration has: the name may be that of a pipe or a device.
func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	text, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err == nil && len(text) > MaxFile {
		err = fmt.Errorf("%s has more than %d bytes", name, MaxFile)
	}
	return text, err
}

func read(file string, text []byte, environ []string) (Config, error) {
	at, faults := index(file, text)
	if len(faults) > 0 {
		return Config{}, &Error{faults}
	}
	k := koanf.New(separator)
	if err := k.Load(rawbytes.Provider(text), yaml.Parser()); err != nil {
		return Config{}, &Error{yamlFaults(file, err)}
	}
	values, faults, warnings := overlay(environ, k.MapKeys("channels"), at)
	if err := k.Load(confmap.Provider(values, separator), nil); err != nil {
		return Config{}, fmt.Errorf("merge the environment into the configuration: %w", err)
	}
	c := Config{Warnings: warnings}
	d := decoder{places: at, faults: faults}
	d.decode(nil, k.Raw(), reflect.ValueOf(&c).Elem())
	d.check(c)
	if len(d.faults) > 0 {
		slices.SortStableFunc(d.faults, byPlace)
		return Config{}, &Error{d.faults}
	}
	dir := ""
	if file != "" {
		dir = filepath.Dir(file)
	}
	c.setDefaults(dir)
	return c, nil
}

// byPlace orders faults as a reader of the file meets them; the environment's come last.
func byPlace(a, b Fault) int {
	if inFile, other := !strings.HasPrefix(a.Place, Prefix), !strings.HasPrefix(b.Place, Prefix); inFile != other {
		if inFile {
			return -1
		}
		return 1
	}
	fileA, lineA := splitPlace(a.Place)
	fileB, lineB := splitPlace(b.Place)
	return cmp.Or(cmp.Compare(fileA, fileB), cmp.Compare(lineA, lineB), cmp.Compare(a.Place, b.Place), cmp.Compare(a.Key, b.Key))
}

func splitPlace(place string) (file string, line int) {
	parts := strings.Split(place, ":")
	for i := len(parts) - 1; i > 0; i-- {
		if n, err := strconv.Atoi(parts[i]); err == nil {
			file, line = strings.Join(parts[:i], ":"), n
			continue
		}
		break
	}
	if file == "" {
		file = place
	}
	return file, line
}
