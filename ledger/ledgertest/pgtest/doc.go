// Package pgtest finds or starts a Postgres for tests.
//
// It takes, in this order, the server that PAWL_TEST_POSTGRES names (a connection URL of a role that may create databases), server
// programs on this machine (PATH, then /usr/lib/postgresql), which it starts in a temporary directory as a user without
// rights, with fsync on, and which end with the test binary even if that is killed, or a container (testcontainers-go; the image is
// PAWL_TEST_POSTGRES_IMAGE). It prints which. Where there is none, tests that ask for a database are skipped by name; with CI=true
// they fail.
//
//	func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }
//
//	func TestSomething(t *testing.T) {
//		url := pgtest.Database(t)
//		…
//	}
//
// A test that stops, kills or cuts off the server takes one of its own with [NewServer], so that no other test suffers.
// [Pooler] puts a PgBouncer before a database, [NewProxy] something that breaks connections.
package pgtest
