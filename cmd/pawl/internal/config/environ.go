package config

import (
	"reflect"
	"strconv"
	"strings"
)

// Prefix is what the environment variables that override pawl.yaml begin with: PAWL_LEDGER_URL is ledger.url,
// PAWL_CHANNELS_MAIL_MARKETING_FLAG is channels.mail/marketing.flag.
const Prefix = "PAWL_"

// FileVariable names the configuration file where no flag does.
const FileVariable = "PAWL_CONFIG"

// variable is the environment variable of a path.
func variable(path []string) string {
	upper := strings.ToUpper(strings.Join(path, "_"))
	return Prefix + strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, upper)
}

// leaf is a key that one variable can set.
type leaf struct {
	path []string
	kind reflect.Kind // String also for durations and URLs
}

// leaves lists the keys under t that hold one value. Under a map there are those of the names that the file has.
func leaves(path []string, t reflect.Type, names []string) []leaf {
	switch {
	case t == durationType:
		return []leaf{{path, reflect.String}}
	case t == secretType, t.Kind() == reflect.Slice: // no single value
		return nil
	}
	child := func(key string) []string { return append(path[:len(path):len(path)], key) }
	var found []leaf
	switch t.Kind() {
	case reflect.Struct:
		keys, at := fields(t)
		for _, key := range keys {
			found = append(found, leaves(child(key), t.Field(at[key]).Type, names)...)
		}
	case reflect.Map:
		for _, name := range names {
			found = append(found, leaves(child(name), t.Elem(), nil)...)
		}
	default:
		found = append(found, leaf{path, t.Kind()})
	}
	return found
}

// Keys returns every key of the file, in order, with NAME for a channel's name.
func Keys() []string {
	var all []string
	var walk func(path string, t reflect.Type)
	walk = func(path string, t reflect.Type) {
		switch {
		case t.Kind() == reflect.Struct:
			keys, at := fields(t)
			for _, key := range keys {
				walk(strings.TrimPrefix(path+"."+key, "."), t.Field(at[key]).Type)
			}
		case t.Kind() == reflect.Map:
			walk(path+".NAME", t.Elem())
		default:
			all = append(all, path)
		}
	}
	walk("", reflect.TypeFor[Config]())
	return all
}

// overlay reads the environment: values by path, and what looks like a mistake.
func overlay(environ, channels []string, p places) (values map[string]any, faults []Fault, warnings []string) {
	values = map[string]any{}
	known := map[string][]leaf{}
	var names []string
	for _, l := range leaves(nil, reflect.TypeFor[Config](), channels) {
		name := variable(l.path)
		known[name] = append(known[name], l)
		names = append(names, name)
	}
	for _, entry := range environ {
		name, text, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, Prefix) || foreign(name) {
			continue
		}
		switch targets := known[name]; len(targets) {
		case 1:
			values[join(targets[0].path)] = parse(text, targets[0].kind)
			p.at[join(targets[0].path)] = name
		case 0:
			warnings = append(warnings, "the environment variable "+name+" is not used; "+near(name, names))
		default:
			faults = append(faults, Fault{Place: name, Problem: "could mean " + strings.Join(targets[0].path, ".") + " or " +
				strings.Join(targets[1].path, ".") + "; set it in the file"})
		}
	}
	return values, faults, warnings
}

func near(name string, names []string) string {
	if hint := Suggest(name, names); strings.HasPrefix(hint, "did") {
		return hint
	}
	return "it names no key"
}

// foreign reports variables that begin like ours and name no key: the command's and the demo's own, the adapters' handshake, and what
// Kubernetes sets for a service that is named pawl.
func foreign(name string) bool {
	return name == FileVariable || name == "PAWL_API_URL" || name == "PAWL_API_TOKEN" || strings.HasPrefix(name, "PAWL_ADAPTER_") || strings.HasPrefix(name, "PAWL_TEST_") ||
		strings.HasPrefix(name, "PAWL_DEMO_") ||
		strings.HasPrefix(name, "PAWL_SERVICE_") || name == "PAWL_PORT" || strings.HasPrefix(name, "PAWL_PORT_")
}

// parse reads a variable's text. What cannot be read stays text, and the decoder says what was wanted.
func parse(text string, kind reflect.Kind) any {
	switch kind {
	case reflect.Bool:
		if b, err := strconv.ParseBool(text); err == nil {
			return b
		}
	case reflect.Int:
		if n, err := strconv.Atoi(text); err == nil {
			return n
		}
	case reflect.Float64:
		if n, err := strconv.ParseFloat(text, 64); err == nil {
			return n
		}
	}
	return text
}
