package doctor

import (
	"bytes"
	"encoding/json"
	"errors"
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
		d.warn(about, "pawl init writes one to begin with", "there is no file: the embedded ledger in %s, and no channels", d.Config.Data)
	default:
		d.ok(about, "%s can be read; channels: %s", d.File, orNone(d.Config.Names()))
	}
	for _, w := range d.Config.Warnings {
		d.warn(about, "remove it, or correct its name", "%s", w)
	}
	d.readable(about)
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
			looks := strings.Contains(name, "password") || strings.Contains(name, "secret") || strings.HasSuffix(name, "token")
			if looks && v != "" && !strings.HasSuffix(name, "_file") {
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
