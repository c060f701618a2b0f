// Package canonical gives one JSON value exactly one text, so that two
// programs that never met can compare digests of it.
//
// The format is named by [Algorithm]. Its text is what ECMAScript's
// JSON.parse followed by JSON.stringify would write, with the members of every
// object sorted by the UTF-16 code units of their names. Digests made here
// agree byte for byte with JavaScript programs that do that, and for texts
// without lone surrogates and duplicate names with RFC 8785.
//
// [Transform] and [Sum] start from JSON text, [Marshal] and [SumValue] from a
// Go value. [Key] and its sisters build effect keys, the business identity an
// effect keeps through every retry.
//
// What is refused, always with the place named: text that JSON.parse refuses,
// invalid UTF-8, numbers too large for a double, nesting beyond [MaxDepth],
// and Go values without a JSON form.
//
// The package uses the standard library only. All functions are pure and safe
// for concurrent use. The format is frozen: a change would be another
// algorithm with another name.
package canonical
