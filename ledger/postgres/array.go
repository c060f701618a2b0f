package postgres

import (
	"fmt"
	"strings"
	"time"
)

// arrayText writes a slice as the text of a Postgres array; anything else is returned as it is.
func arrayText(v any) any {
	var b strings.Builder
	element := func(v any) {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		switch v := v.(type) {
		case nil:
			b.WriteString("NULL")
		case time.Time:
			b.WriteString(`"` + v.UTC().Format("2006-01-02 15:04:05.999999Z07:00") + `"`)
		case string:
			b.WriteString(`"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(v) + `"`)
		default:
			fmt.Fprint(&b, v)
		}
	}
	switch v := v.(type) {
	case []string:
		for _, x := range v {
			element(x)
		}
	case []*string:
		for _, x := range v {
			if x == nil {
				element(nil)
			} else {
				element(*x)
			}
		}
	case []int32:
		for _, x := range v {
			element(x)
		}
	case []int64:
		for _, x := range v {
			element(x)
		}
	case []time.Time:
		for _, x := range v {
			element(x)
		}
	case []*time.Time:
		for _, x := range v {
			if x == nil {
				element(nil)
			} else {
				element(*x)
			}
		}
	case []any:
		for _, x := range v {
			element(x)
		}
	default:
		return v
	}
	return "{" + b.String() + "}"
}
