package sqlite

import (
	"database/sql"
	"fmt"
	"time"
)

// timeLayout has a fixed number of digits, so that times sort as text.
const timeLayout = "2006-01-02T15:04:05.000000Z"

// timeText is how a time is stored; nil, which is NULL, for the zero time.
func timeText(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format(timeLayout)
}

// scanTime reads a stored time into t; NULL is the zero time.
type scanTime struct{ t *time.Time }

// Scan implements sql.Scanner.
func (s scanTime) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*s.t = time.Time{}
		return nil
	case string:
		return s.parse(v)
	case []byte:
		return s.parse(string(v))
	case time.Time: // a caller's connection may turn texts that look like times into times
		*s.t = v.UTC()
		return nil
	}
	return fmt.Errorf("a time is stored as %T, not as text", v)
}

func (s scanTime) parse(text string) error {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return fmt.Errorf("stored time %q is not of the form %s", text, timeLayout)
	}
	*s.t = t.UTC()
	return nil
}

var _ sql.Scanner = scanTime{}
