// Package promises holds no code. Its tests guard what no other package's
// tests do: promises of the library as a whole, and that the documents name
// only tests, fields and dependencies that exist.
package promises
