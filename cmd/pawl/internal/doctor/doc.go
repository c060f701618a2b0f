// Package doctor looks at everything that a service needs, and says of each thing whether it is well, what is wrong, and what to do. It
// changes nothing: what it starts it ends, and what it writes to try a folder it removes.
package doctor
