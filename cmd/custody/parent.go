package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/custody-project/custody/foreground"
	"github.com/spf13/cobra"
)

// What waits for a launch ends with custody's own parent: a program that is
// killed leaves nobody behind who waits on its behalf.

type bound struct{ noParent bool }

func (b *bound) add(c *cobra.Command) {
	c.Flags().BoolVar(&b.noParent, "no-parent", false, "go on when custody's own parent dies")
}

// wait calls f with a context that is done when our parent dies.
func (b *bound) wait(ctx context.Context, verb string, f func(context.Context) error) error {
	if b.noParent {
		return f(ctx)
	}
	ctx, release, err := foreground.WithParent(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w; --no-parent goes on without it", verb, err)
	}
	defer release()
	if err = f(ctx); err != nil && errors.Is(context.Cause(ctx), foreground.ErrParentDied) {
		return fmt.Errorf("%s: %w; --no-parent goes on without it", verb, foreground.ErrParentDied)
	}
	return err
}
