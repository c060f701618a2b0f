// Package crashtest kills programs at every point where they touch a database or a pipe, one point after the other, so that a
// promise about crashes is tested at each of them and not at a lucky few.
//
// A victim is the test binary started again. It counts [Points]: the moments before and after each statement that its database
// driver sends ([Tracer] for pgx, [Connector] for database/sql), and whatever else it marks. Started with the number of a
// point, it kills itself there with SIGKILL: no deferred function runs, no buffer is flushed, as when the machine loses the
// process.
//
// [Enumerate] starts victims for point 1, 2, 3 and so on, until one runs to its end, and calls a check after each death. It reports how
// many points there were, so that a test can refuse a number that shrank.
package crashtest
