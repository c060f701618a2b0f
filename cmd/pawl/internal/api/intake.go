package api

import (
	"errors"
	"io"
	"sync/atomic"
)

// fullBodies is how many bodies of the largest size fit in at once. Each takes a few times its size while it is worked on.
const fullBodies = 4

// errIntakeFull says that no more of a body is taken in now.
var errIntakeFull = errors.New("too many bytes of bodies are in memory")

// intake bounds the bytes of all bodies that are in memory at once. A body counts with what has come in of it, so that a slow one holds
// up nobody with what it only promises.
type intake struct {
	most int64
	held atomic.Int64
}

// body counts what is read through it, until it is given back.
type body struct {
	from io.Reader
	in   *intake
	held int64
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	b.held += int64(n)
	if b.in.held.Add(int64(n)) > b.in.most {
		return 0, errIntakeFull
	}
	return n, err
}

// giveBack ends the count: nothing of the body is in use any more.
func (b *body) giveBack() {
	b.in.held.Add(-b.held)
	b.held = 0
}
