package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// separator stands between the parts of a path: no key can hold it, while channel names hold dots and slashes.
const separator = "\x00"

func join(path []string) string { return strings.Join(path, separator) }

// places knows where each key stands.
type places struct {
	file string
	at   map[string]string
}

func (p places) of(path []string) string {
	for n := len(path); n > 0; n-- {
		if at, ok := p.at[join(path[:n])]; ok {
			return at
		}
	}
	return p.file
}

// index reads the file for the places of its keys, and refuses what is no single YAML mapping.
func index(file string, text []byte) (places, []Fault) {
	p := places{file: file, at: map[string]string{}}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var document yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return p, nil
	case err != nil:
		return p, yamlFaults(file, err)
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return p, []Fault{{Place: file, Problem: "holds more than one YAML document; keep one"}}
	}
	root := document.Content[0]
	if root.Kind != yaml.MappingNode && root.Tag != "!!null" {
		return p, []Fault{{Place: p.node(root), Problem: "is not a mapping of keys to values"}}
	}
	var whole map[string]any
	if err := document.Decode(&whole); err != nil { // duplicate keys, unknown anchors
		return p, yamlFaults(file, err)
	}
	p.walk(nil, root, 0)
	return p, nil
}

func (p places) node(n *yaml.Node) string { return fmt.Sprintf("%s:%d:%d", p.file, n.Line, n.Column) }

// maxDepth bounds how deep keys are looked for; aliases may not lead further.
const maxDepth = 32

func (p places) walk(path []string, n *yaml.Node, depth int) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.MappingNode || depth > maxDepth {
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Tag == "!!merge" {
			p.walk(path, value, depth+1)
			continue
		}
		child := append(path[:len(path):len(path)], key.Value)
		if _, ok := p.at[join(child)]; !ok {
			p.at[join(child)] = p.node(key)
		}
		p.walk(child, value, depth+1)
	}
}

var yamlLine = regexp.MustCompile(`^\s*(?:yaml: )?(?:line (\d+): )?(.*)$`)

// yamlFaults turns the parser's error into one line for each fault.
func yamlFaults(file string, err error) []Fault {
	var faults []Fault
	for line := range strings.SplitSeq(err.Error(), "\n") {
		m := yamlLine.FindStringSubmatch(line)
		if m == nil || m[2] == "" || m[2] == "unmarshal errors:" {
			continue
		}
		place := file
		if m[1] != "" {
			place += ":" + m[1]
		}
		faults = append(faults, Fault{Place: place, Problem: "is not YAML that can be read: " + withoutValues(m[2])})
	}
	return faults
}

// yamlValue is where the parser's error quotes a value. It quotes a key, which is no secret, in another way.
var yamlValue = regexp.MustCompile("'.*'|`.*`")

// withoutValues takes the values out of the parser's error: a password that begins with * is an alias to it, and no anchor has that name.
func withoutValues(text string) string {
	switch {
	case strings.HasPrefix(text, "unknown anchor"):
		return "a value that begins with * is an alias, and names no anchor; put the value in quotes"
	case strings.HasPrefix(text, "invalid map key"):
		return "a key must be text; put it in quotes"
	}
	return yamlValue.ReplaceAllString(text, hidden)
}
