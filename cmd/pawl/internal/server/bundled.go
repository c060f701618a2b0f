package server

import (
	"slices"

	"github.com/pawlworks/pawl/adapters/file"
	"github.com/pawlworks/pawl/adapters/smtp"
	"github.com/pawlworks/pawl/sdk"
)

// Bundled is an adapter that this program holds itself.
type Bundled struct {
	Name    string // as pawl.yaml names it
	Adapter sdk.Adapter
}

// AllBundled returns the bundled adapters in order of their names.
func AllBundled() []Bundled {
	return []Bundled{
		{"file", file.Adapter()},
		{"smtp", smtp.Adapter()},
	}
}

// FindBundled returns one bundled adapter.
func FindBundled(name string) (Bundled, bool) {
	all := AllBundled()
	i := slices.IndexFunc(all, func(b Bundled) bool { return b.Name == name })
	if i < 0 {
		return Bundled{}, false
	}
	return all[i], true
}

// BundledNames returns their names in order.
func BundledNames() []string {
	var names []string
	for _, b := range AllBundled() {
		names = append(names, b.Name)
	}
	return names
}
