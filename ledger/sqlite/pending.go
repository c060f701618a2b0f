package sqlite

import "errors"

var errPending = errors.New("not built yet")
