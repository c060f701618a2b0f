package config

import (
	"fmt"
	"slices"
	"strings"
)

// Suggest says which known name was probably meant, or which there are.
func Suggest(name string, known []string) string {
	best, distance := "", len(name)
	for _, k := range known {
		if d := editDistance(name, k); d < distance || d == distance && best != "" && k < best {
			best, distance = k, d
		}
	}
	if best != "" && distance <= max(2, len(name)/3) {
		return fmt.Sprintf("did you mean %q?", best)
	}
	if len(known) == 0 {
		return "there is nothing to choose from"
	}
	sorted := slices.Sorted(slices.Values(known))
	return "use one of " + strings.Join(sorted, ", ")
}

// editDistance counts the letters to change, add, drop or swap with a neighbour.
func editDistance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
