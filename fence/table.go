package fence

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// ErrHostLeases says that the runs and their leases are in a table of the host's own, which the ledger reads and never writes.
var ErrHostLeases = errors.New("runs and leases are kept in a table of the host's own: create, acquire, renew and release them there")

// maxIdentifier bounds the name of a table or column, in bytes: databases cut longer ones without a word.
const maxIdentifier = 63

// Table maps a host's own lease table, by the names of its columns, for a ledger in the same database. There must be one row for each run.
// A lease is held while the row has its owner and number, its expiry is in the future on the database's clock, and its status, where one is
// mapped, counts as live. Whoever takes a lease from another owner must raise the number.
//
// Names are taken as they are, letter by letter, whatever they hold: the ledger quotes them.
type Table struct {
	// Schema holds the table. Empty: the part of Name before its dot, if it has one; else the ledger's own schema.
	Schema string
	// Name is the table's name; schema.table where Schema is empty.
	Name string
	// RunID, Owner, Number and ExpiresAt are columns: the run's UUID, who holds the lease (NULL or empty: nobody), the lease's number, which
	// only grows, and when the lease ends.
	RunID, Owner, Number, ExpiresAt string
	// Status is a column that says what state the run is in, and Live the values in which a lease can be held. Empty: the expiry
	// alone decides.
	Status string
	Live   []string
}

// TableError says which part of a mapping is wrong.
type TableError struct {
	Field  string // of [Table], in lower case: run_id, expires_at, …
	Reason string
}

func (e *TableError) Error() string { return "leases." + e.Field + ": " + e.Reason }

// Normal splits Name and checks the mapping, all faults at once, as far as it can be checked without a database. The errors are
// [*TableError].
func (t Table) Normal() (Table, error) {
	if schema, name, found := strings.Cut(t.Name, "."); found && t.Schema == "" {
		t.Schema, t.Name = schema, name
		if schema == "" {
			return t, &TableError{"name", fmt.Sprintf("%.128q has no schema before its dot", "."+name)}
		}
	}
	var faults []error
	wrong := func(field, format string, args ...any) {
		faults = append(faults, &TableError{field, fmt.Sprintf(format, args...)})
	}
	if t.Schema != "" {
		if reason := identifierFault(t.Schema); reason != "" {
			wrong("schema", "%s", reason)
		}
	}
	if reason := identifierFault(t.Name); reason != "" {
		wrong("name", "%s", reason)
	}
	fields := map[string]string{} // by column
	for _, c := range t.Columns() {
		if reason := identifierFault(c.Name); reason != "" {
			wrong(c.Field, "%s", reason)
		} else if other, twice := fields[c.Name]; twice {
			wrong(c.Field, "is column %q, and so is %s", c.Name, other)
		}
		fields[c.Name] = c.Field
	}
	switch {
	case t.Status != "" && len(t.Live) == 0:
		wrong("live", "name the values of %q in which a lease can be held", t.Status)
	case t.Status == "" && len(t.Live) > 0:
		wrong("status", "is empty, but live has values; name the column that they are values of")
	}
	for _, v := range t.Live {
		if !utf8.ValidString(v) || strings.ContainsRune(v, 0) {
			wrong("live", "%.64q is no text", v)
		}
	}
	t.Live = slices.Clone(t.Live)
	return t, errors.Join(faults...)
}

// Column is one column of a mapping.
type Column struct {
	Field string // of [Table], in lower case
	Name  string
}

// Columns returns the columns that the mapping names.
func (t Table) Columns() []Column {
	all := []Column{{"run_id", t.RunID}, {"owner", t.Owner}, {"number", t.Number}, {"expires_at", t.ExpiresAt}}
	if t.Status != "" {
		all = append(all, Column{"status", t.Status})
	}
	return all
}

// Relation is the table as it stands in SQL, quoted, in this schema unless the mapping names one.
func (t Table) Relation(schema string) string {
	if t.Schema != "" {
		schema = t.Schema
	}
	return Quote(schema) + "." + Quote(t.Name)
}

// String is the table's name for a person.
func (t Table) String() string {
	if t.Schema == "" {
		return t.Name
	}
	return t.Schema + "." + t.Name
}

// Quote writes an identifier as SQL has it, whatever it holds.
func Quote(identifier string) string { return `"` + strings.ReplaceAll(identifier, `"`, `""`) + `"` }

// identifierFault says why the name can be that of no table or column; empty if it can.
func identifierFault(name string) string {
	switch {
	case name == "":
		return "is empty; name it"
	case len(name) > maxIdentifier:
		return fmt.Sprintf("%.80q is longer than %d bytes", name, maxIdentifier)
	case !utf8.ValidString(name) || strings.ContainsRune(name, 0):
		return fmt.Sprintf("%q is no name", name)
	}
	return ""
}
