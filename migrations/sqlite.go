package migrations

import (
	"embed"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

// SQLiteTable and the files under [SQLite] are what the migrator of ledger/sqlite uses. The table has the columns that goose
// reads.
const (
	SQLiteTable       = "pawl_migrations"
	SQLiteCreateTable = "CREATE TABLE IF NOT EXISTS " + SQLiteTable + ` (
    id         INTEGER PRIMARY KEY,
    version_id INTEGER NOT NULL,
    is_applied INTEGER NOT NULL,
    tstamp     TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%f000Z', 'now'))
) STRICT`
)

//go:embed sqlite/*.sql
var sqliteFiles embed.FS

// SQLite returns the migrations for SQLite, in a folder of their own.
func SQLite() (fs.FS, error) { return fs.Sub(sqliteFiles, "sqlite") }

// PrintSQLite writes the migrations after version (0: all) as one plain SQL script for the sqlite3 shell, to be applied by hand. It
// keeps the migrator's own table, so that both ways may be mixed.
func PrintSQLite(w io.Writer, after int64) error {
	files, err := SQLite()
	if err != nil {
		return err
	}
	all, err := List(files)
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString(".bail on\nPRAGMA journal_mode = WAL;\nBEGIN IMMEDIATE;\n\n" + SQLiteCreateTable + ";\n")
	for _, m := range all {
		if m.Version <= after {
			continue
		}
		fmt.Fprintf(&b, "\n-- %s\n%s\nINSERT INTO %s (version_id, is_applied) VALUES (%d, 1);\n", m.Name, m.SQL, SQLiteTable, m.Version)
	}
	b.WriteString("\nCOMMIT;\n")
	_, err = io.WriteString(w, b.String())
	return err
}
