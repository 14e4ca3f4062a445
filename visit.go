package custody

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/custody-project/custody/internal/contain"
	"github.com/custody-project/custody/internal/host"
	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/internal/sweep"
	"github.com/custody-project/custody/proof"
)

// Going over the records of every owner, for whoever is no owner: each is
// shown as it is, and what can't be believed is set aside.

// visited is one record with its owner, during a visit.
type visited struct {
	store *ledger.Store
	dir   *ledger.Owner
	owner *ledger.OwnerRecord
	alive bool
	rec   *ledger.Record
	here  host.Place
	tree  *contain.Tree
	kept  proof.Answer // whether the keeper lives, where it was asked
}

// visit calls f for every record. One walk of the process table serves all.
func visit(ctx context.Context, opt ListOptions, f func(visited) error, aside *[]SetAside) error {
	return visitAll(ctx, opt, nil, f, aside)
}

// visitAll is visit that calls owner for every owner, before its records.
func visitAll(ctx context.Context, opt ListOptions, owner func(visited) error, f func(visited) error, aside *[]SetAside) error {
	store, here, err := openState(opt.Dir, opt.AllowNetworkFS)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer store.Close()
	note := func(odd []ledger.Odd) { *aside = append(*aside, setAside(odd)...) }
	scopes, odd, err := store.Scopes()
	if err != nil {
		return err
	}
	note(odd)
	tables := contain.Tables(sync.OnceValues(host.ReadTable))
	for _, scope := range scopes {
		if opt.Scope != "" && scope != opt.Scope {
			continue
		}
		owners, odd, err := store.Owners(scope)
		if err != nil {
			return err
		}
		note(odd)
		for _, id := range owners {
			if err := ctx.Err(); err != nil {
				return err
			}
			odd, err := visitOwner(store, scope, id, here, tables, owner, f)
			if err != nil {
				return err
			}
			note(odd)
		}
	}
	return nil
}

func visitOwner(store *ledger.Store, scope string, id proof.ID, here host.Place, tables contain.Tables, each, f func(visited) error) ([]ledger.Odd, error) {
	d, err := store.OpenOwner(scope, id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // ended meanwhile
	}
	if err != nil {
		return []ledger.Odd{{Path: scope + "/" + id.String(), Reason: err.Error()}}, nil
	}
	defer d.Close()
	owner, err := d.ReadOwner()
	if errors.Is(err, fs.ErrNotExist) && !store.Has(scope, id) {
		return nil, nil
	}
	if err != nil {
		return []ledger.Odd{{Path: d.Path() + "/owner.json", Reason: err.Error()}}, nil
	}
	recs, odd, err := d.Records()
	if err != nil {
		return append(odd, ledger.Odd{Path: d.Path(), Reason: err.Error()}), nil
	}
	alive := sweep.OwnerAlive(owner, here) == proof.Yes && !owner.Closed
	if each != nil {
		if err := each(visited{store: store, dir: d, owner: owner, alive: alive, here: here}); err != nil {
			return odd, err
		}
	}
	for _, r := range recs {
		err := f(visited{store: store, dir: d, owner: owner, alive: alive, rec: r, here: here, tree: contain.Of(r, here, tables)})
		if err != nil {
			return odd, err
		}
	}
	return odd, nil
}

func (v visited) matches(launch string) bool {
	return v.rec.Name != "" && v.rec.Name == launch ||
		len(launch) >= 4 && strings.HasPrefix(v.rec.ID.String(), launch)
}

// only returns the one launch found.
func only(launch string, found []visited, aside []SetAside) (visited, error) {
	found = living(launch, found)
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		if len(aside) > 0 {
			return visited{}, fmt.Errorf("launch %q: %w; %d records could not be believed, 'custody sweep --dry-run' names them", launch, ErrNotFound, len(aside))
		}
		return visited{}, fmt.Errorf("launch %q: %w; 'custody ls' shows what is owned", launch, ErrNotFound)
	}
	var ids []string
	for _, v := range found {
		ids = append(ids, v.rec.ID.String())
	}
	return visited{}, fmt.Errorf("launch %q: %d launches match, name one by its id: %s", launch, len(found), strings.Join(ids, " "))
}

// living leaves out what held the name and has ended, but for the last of them
// if nothing else is meant, and what waits for the name while another has it.
func living(name string, found []visited) []visited {
	var live []visited
	var last *visited
	holds := map[string]bool{} // scopes in which a launch that began has the name
	for _, v := range found {
		if v.rec.Name == name && v.rec.Started() && v.rec.State != ledger.Ended {
			holds[v.rec.Scope] = true
		}
	}
	for i, v := range found {
		if v.rec.Name == name && !v.rec.Started() && holds[v.rec.Scope] {
			continue
		}
		if v.rec.State != ledger.Ended || v.rec.Name != name {
			live = append(live, v)
		} else if last == nil || v.rec.EndedAt.After(last.rec.EndedAt) {
			last = &found[i]
		}
	}
	if len(live) == 0 && last != nil {
		return []visited{*last}
	}
	return live
}

// find finds the one launch that is meant, and opens its owner's directory.
func find(ctx context.Context, launch string, opt ListOptions) (visited, *ledger.Owner, error) {
	for try := 1; ; try++ {
		v, d, err := findOnce(ctx, launch, opt)
		// While one looks it may move from a directory not looked at yet to one
		// that was, or out of a directory that is removed then.
		moved := errors.Is(err, fs.ErrNotExist) && try < 10 || errors.Is(err, ErrNotFound) && try < 3
		if !moved || ctx.Err() != nil {
			return v, d, err
		}
	}
}

func findOnce(ctx context.Context, launch string, opt ListOptions) (visited, *ledger.Owner, error) {
	var found []visited
	var aside []SetAside
	err := visit(ctx, opt, func(v visited) error {
		if v.matches(launch) {
			// It may be met twice, where it was and where it moved to.
			found = slices.DeleteFunc(found, func(f visited) bool { return f.rec.ID == v.rec.ID })
			found = append(found, v)
		}
		return nil
	}, &aside)
	if err != nil {
		return visited{}, nil, err
	}
	v, err := only(launch, found, aside)
	if err != nil {
		return visited{}, nil, err
	}
	d, err := ledger.OpenOwnerAt(v.dir.Path())
	return v, d, err
}
