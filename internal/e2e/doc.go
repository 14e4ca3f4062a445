// Package e2e holds the tests against the real kernel: trees of package tree,
// owned by a real program or by the custody command, hurt in the ways that
// people reported, and watched by handles of their own.
//
// A test is named after its case. The words of the cases are methods here:
// gone, untouched, recordKept, recordEnded.
package e2e
