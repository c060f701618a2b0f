// Package file is the adapter of the kind "file": one effect is one JSON line appended to a file and flushed to disk.
//
// It is the smallest adapter there is that does everything the contract asks for, and the one to read before writing
// another. It makes no attempt to be idempotent: a second send would append a second line. What makes an effect fire
// once is the stored intent, Begin right before the write, and a probe that can prove an absence.
//
// # Why an absence is proof
//
// Send takes an exclusive lock on the file, then calls Begin, then writes, and lets the lock go after the flush. Probe
// takes the same lock. When a probe that started after the not-after holds the lock, no writer is between Begin and its
// write: an earlier one has finished or died (the kernel lets a dead process's lock go, and its write cannot come
// later), and a later one is refused by Begin. The settle time only covers clocks that disagree by a little.
//
// # Lines
//
// The first line says when the file began. If it is younger than the attempt that a probe asks about, the file was
// exchanged in between (by a log rotation) and the probe answers unknown. A line counts when its line feed is there: a
// writer that died within its write leaves a torn line, which is no effect, and which the next writer cuts off.
package file
