// Package world holds what the simulated outside worlds share: a listener whose connections can be counted and killed,
// and a certificate made on the spot. Each world has a package of its own below this one; the conformance suite, the
// demo and the adapters' tests use them as the systems that an effect is made on.
//
// A world counts effects and never removes duplicates: it is the witness that says how often something really happened.
package world
