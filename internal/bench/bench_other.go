//go:build !linux

package main

import (
	"errors"
	"fmt"
)

func playRole(string) {}

func (b *bench) run([]string) error {
	return fmt.Errorf("measured on Linux only so far: %w", errors.ErrUnsupported)
}
