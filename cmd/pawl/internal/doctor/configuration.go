package doctor

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/pawlworks/pawl/cmd/pawl/internal/config"
)

func (d *doctor) configuration() {
	const about = "configuration"
	var faults *config.Error
	switch {
	case errors.As(d.Failed, &faults):
		for _, f := range faults.Faults {
			d.fault(about, "mend it there; pawl init writes an example of everything", "%s", f)
		}
		return
	case d.Failed != nil:
		d.fault(about, "give --config FILE, or set "+config.FileVariable, "%v", d.Failed)
		return
	case d.File == "":
		d.warn(about, "pawl init writes the one that pawl serve runs without a file; then its channels are looked at, too", "there is no file: only the embedded ledger in %s and the addresses are looked at", d.Config.Data)
	default:
		d.ok(about, "%s can be read; channels: %s", d.File, orNone(d.Config.Names()))
	}
	for _, w := range d.Config.Warnings {
		d.warn(about, "remove it, or correct its name", "%s", w)
	}
	d.readable(about)
	d.secretFiles(about)
}

// secretFiles looks at who may read the files of secrets that channels name. One that is missing is the adapter's to tell.
func (d *doctor) secretFiles(about string) {
	for _, name := range d.Config.Names() {
		var values map[string]any
		_ = json.Unmarshal(d.Config.Channels[name].Config.Reveal(), &values) // what is not JSON is the adapter's to refuse
		for key, file := range secretFilesIn("channels."+name+".config", values) {
			info, err := os.Stat(file)
			if err != nil || info.Mode().Perm()&0o004 == 0 {
				continue
			}
			d.fault(about, "chmod o-rwx that file", "every user of this machine can read the secret that %s names (mode %#o)", key, info.Mode().Perm())
		}
	}
}

// secretFilesIn finds keys that name the file of a secret, by their names.
func secretFilesIn(prefix string, values map[string]any) map[string]string {
	files := map[string]string{}
	for key, v := range values {
		at := prefix + "." + key
		switch v := v.(type) {
		case map[string]any:
			maps.Copy(files, secretFilesIn(at, v))
		case string:
			if inner, ok := strings.CutSuffix(strings.ToLower(key), "_file"); ok && secretName(inner) {
				files[at] = v
			}
		}
	}
	return files
}

func secretName(key string) bool {
	return strings.Contains(key, "password") || strings.Contains(key, "secret") || strings.HasSuffix(key, "token")
}

// readable looks at who may read a configuration that holds secrets.
func (d *doctor) readable(about string) {
	if d.File == "" {
		return
	}
	info, err := os.Stat(d.File)
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o004 == 0 {
		return
	}
	text, err := os.ReadFile(d.File)
	if err != nil {
		return
	}
	if key := d.secretIn(text); key != "" {
		d.fault(about, "chmod 640 "+d.File+"; better, keep the secret in a file of its own or in the environment",
			"%s holds a secret (%s), and every user of this machine can read it (mode %#o)", d.File, key, info.Mode().Perm())
	}
}

// secretIn names a key whose secret stands in the file itself, empty if none does.
func (d *doctor) secretIn(text []byte) string {
	if u, err := url.Parse(d.Config.Ledger.URL.Reveal()); err == nil && u.User != nil {
		if password, _ := u.User.Password(); password != "" && bytes.Contains(text, []byte(password)) {
			return "ledger.url"
		}
	}
	for _, name := range d.Config.Names() {
		var values map[string]any
		_ = json.Unmarshal(d.Config.Channels[name].Config.Reveal(), &values) // what is not JSON is the adapter's to refuse
		if key := secretKey(values); key != "" {
			return "channels." + name + ".config." + key
		}
	}
	return ""
}

func secretKey(values map[string]any) string {
	for key, v := range values {
		switch v := v.(type) {
		case map[string]any:
			if inner := secretKey(v); inner != "" {
				return key + "." + inner
			}
		case string:
			name := strings.ToLower(key)
			if secretName(name) && v != "" && !strings.HasSuffix(name, "_file") {
				return key
			}
		}
	}
	return ""
}

// environment names the variables that count, and never their values.
func (d *doctor) environment() {
	var names []string
	for _, entry := range d.Environ {
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, config.Prefix) {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		slices.Sort(names)
		d.ok("environment", "these are set, and come before the file: %s", strings.Join(names, ", "))
	}
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
