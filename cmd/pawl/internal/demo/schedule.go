package demo

import "math/rand/v2"

// blow is one kill.
type blow string

const (
	killEngine     blow = "engine"             // SIGKILL the engine; its adapter is left behind and has to notice
	killAdapter    blow = "adapter"            // SIGKILL the adapter only
	killBoth       blow = "engine and adapter" // at the same moment
	cutConnections blow = "connections"        // cut what is open to the outside world
	killInGap      blow = "engine in the gap"  // after the outside world accepted, before its reply arrives
)

// planned is a kill that is due when so many effects have been committed, after a further random part of a round.
type planned struct {
	after int
	extra float64 // 0..1, of the time that a send takes
	blow  blow
}

// schedule makes the same kills for the same seed. They are spread over the whole run; the gap gets a third of them, where there
// is a wire to watch.
func schedule(o Options) []planned {
	random := rand.New(rand.NewPCG(o.Seed, 0x70617766))
	blows := []blow{killEngine, killAdapter, killBoth, killEngine}
	if o.Channel == "mail" {
		blows = []blow{killEngine, killAdapter, killBoth, cutConnections, killInGap, killInGap}
	}
	plan := make([]planned, o.Kills)
	for i := range plan {
		plan[i] = planned{
			after: int((float64(i) + random.Float64()) * float64(o.Count) / float64(o.Kills) * 0.95),
			extra: random.Float64(),
			blow:  blows[random.IntN(len(blows))],
		}
	}
	return plan
}
