package postgres

import "errors"

var errPending = errors.New("not built yet")
