// Package observetest reads what package observe offers, for tests: metrics as numbers, and the spans that a collector would get.
package observetest
