package fence_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/pawlworks/pawl/fence"
)

// A worker takes a run, works while it has it, and hands it back.
func ExampleKeep() {
	ctx := context.Background()
	leases := &storage{} // a ledger
	keeper, err := fence.Keep(ctx, leases, "6f1c2a54-5b8e-4a35-9d0e-3c1f7a9b2d10", fence.AcquireOptions{Owner: "worker-1", TTL: 30 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	work := func(ctx context.Context, lease fence.Lease) error {
		fmt.Println("working under lease", lease.Fence)
		return ctx.Err() // ends when the lease is lost; context.Cause says why
	}
	status := fence.StatusCompleted
	if err := work(keeper.Context(), keeper.Lease()); err != nil {
		status = fence.StatusReady
	}
	if err := keeper.Release(ctx, status); err != nil {
		log.Fatal(err)
	}
	fmt.Println(leases.released)
	// Output:
	// working under lease 1.1 by worker-1
	// [completed]
}
