//go:build race

package core_test

// slowness stretches the times of tests where the race detector makes everything slower.
const slowness = 4
