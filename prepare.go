package custody

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/custody-project/custody/internal/asset"
	"github.com/custody-project/custody/internal/contain"
	"github.com/custody-project/custody/internal/crash"
	"github.com/custody-project/custody/internal/ledger"
)

// What a launch gets before it is forked: its name and ports, its directories
// and cgroup, its environment.

// prepare takes name and ports, and makes directories and cgroup.
func (o *Owner) prepare(a startArgs, rec *ledger.Record) error {
	if rec.Name != "" {
		if err := o.claim(a.ctx, rec, a.spec.WaitName, a.spec.Replace); err != nil {
			return err
		}
		crash.Here("after-name")
	}
	if err := o.takePorts(a.ctx, rec); err != nil {
		return err
	}
	if len(rec.Ports) > 0 {
		crash.Here("after-port")
	}
	for i := range rec.Assets {
		if err := asset.Make(&rec.Assets[i]); err != nil {
			return err
		}
		crash.Here("after-dir")
	}
	if rec.Cgroup != nil {
		err := contain.MakeCgroup(rec.Cgroup)
		if err != nil {
			// We may have been moved since the place was found.
			o.cgroups.forget()
			if base, e := o.cgroups.base(); e == nil && contain.CgroupPath(base, rec.ID) != rec.Cgroup.Path {
				rec.Cgroup.Path = contain.CgroupPath(base, rec.ID)
				if err = o.dir.Rewrite(rec); err == nil { // before it is made, as ever
					err = contain.MakeCgroup(rec.Cgroup)
				}
			}
		}
		if err != nil && !contain.AtLeast(map[bool]string{true: contain.Lineage, false: contain.Group}[a.spec.Kept], rec.Require) {
			return &LevelError{Required: Level(rec.Require), Available: LevelGroup, Missing: err.Error()}
		}
		if err != nil {
			rec.Cgroup, rec.Level = nil, contain.Group
			if a.spec.Kept {
				rec.Level = contain.Lineage
			}
		}
		crash.Here("after-cgroup")
	}
	if len(rec.Assets) > 0 || rec.Cgroup != nil {
		if a.spec.Kept {
			return o.dir.Rewrite(rec) // the keeper goes on with the record
		}
	}
	return nil
}

// claim takes the launch's name, with wait when it is free. With replace it
// stops at most one launch: of several that replace the same one, one gets the
// name.
func (o *Owner) claim(ctx context.Context, rec *ledger.Record, wait, replace bool) error {
	pause, replaced := 10*time.Millisecond, false
	for {
		err := o.store.ClaimName(o.scope, rec.Name, ledger.Claim{Owner: o.id, Launch: rec.ID})
		var held *ledger.NameHeldError
		if !errors.As(err, &held) {
			return err
		}
		if replace && held.Reason == "" && !replaced {
			replaced = true
			if err := o.replace(ctx, held.Holder, rec); err != nil {
				return err
			}
			continue
		}
		refused := &NameHeldError{Scope: o.scope, Name: rec.Name, Holder: held.Holder.Launch, text: held.Error()}
		if !wait || held.Reason != "" {
			return refused
		}
		select {
		case <-o.closing.Done():
			return ErrClosed
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", refused, ctx.Err())
		case <-time.After(pause):
		}
		pause = min(2*pause, time.Second)
		// The holder's owner may have died meanwhile.
		if held.Holder.Owner != o.id {
			open, cancel := o.whileOpen(ctx)
			Sweep(open, SweepOptions{Dir: o.store.Path(), Scope: o.scope, AllowNetworkFS: o.opt.AllowNetworkFS})
			cancel()
		}
	}
}

// dress puts the cookie and the directories into environment and arguments.
func dress(rec *ledger.Record, env, args []string) (envOut, argsOut []string) {
	envOut = make([]string, 0, len(env)+2+len(rec.Assets))
	for _, kv := range env {
		if !strings.HasPrefix(kv, contain.CookieEnv+"=") {
			envOut = append(envOut, kv)
		}
	}
	envOut = append(envOut, contain.CookieEnv+"="+rec.ID.String())
	argsOut = append([]string{}, args...)
	for _, a := range rec.Assets {
		if a.Env == "" {
			continue
		}
		envOut = append(envOut, a.Env+"="+asset.Inside(a))
		for i := range argsOut {
			if i > 0 {
				argsOut[i] = strings.ReplaceAll(argsOut[i], "{"+a.Env+"}", asset.Inside(a))
			}
		}
	}
	return envOut, argsOut
}
