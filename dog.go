package custody

import (
	"errors"
	"sync"
	"time"

	"github.com/custody-project/custody/internal/helper"
)

// Direct launches need somebody who sees their owner die. No such launch is
// started while there is no watchdog: the one that died is replaced, and until
// it is, a start tries itself, and fails if that fails.

// dog keeps one watchdog alive beside the owner.
type dog struct {
	mu        sync.Mutex
	w         *helper.Watchdog // nil while there is none
	minded    bool             // a goroutine waits for its end
	dismissed bool
}

// watched starts the watchdog if there is none. It is started for the first
// launch that needs one, and replaced if it dies while the owner lives.
func (o *Owner) watched() error {
	o.dog.mu.Lock()
	defer o.dog.mu.Unlock()
	if o.dog.dismissed {
		return nil
	}
	_, err := o.watchdog()
	if errors.Is(err, helper.ErrNoHelper) && o.opt.WithoutHelper {
		return nil
	}
	if err == nil && !o.dog.minded {
		o.dog.minded = true
		o.tasks.Go(o.mindDog)
	}
	return err
}

// watchdog returns the living watchdog, and starts one if there is none. It
// reports whether it did. dog.mu is held.
func (o *Owner) watchdog() (started bool, err error) {
	if o.dog.w != nil {
		select {
		case <-o.dog.w.Done():
			o.dog.w = nil
		default:
			return false, nil
		}
	}
	o.dog.w, err = o.helper.StartWatchdog(o.store, o.dir, o.self, o.opt.AllowNetworkFS)
	return err == nil, err
}

// mindDog waits for the watchdog's end and starts another one.
func (o *Owner) mindDog() {
	pause := 10 * time.Millisecond
	for {
		o.dog.mu.Lock()
		w := o.dog.w
		o.dog.mu.Unlock()
		if w != nil {
			<-w.Done()
		}
		o.dog.mu.Lock()
		if o.dog.dismissed {
			o.dog.mu.Unlock()
			return
		}
		started, err := o.watchdog()
		pid := 0
		if started {
			pid = o.dog.w.PID
		}
		o.dog.mu.Unlock()
		if started {
			o.event(Event{Kind: WatchdogReplaced, PID: pid})
		}
		if err == nil {
			pause = 10 * time.Millisecond
			continue
		}
		o.event(Event{Kind: WatchdogFailed, Err: err})
		select {
		case <-time.After(pause):
			pause = min(2*pause, 10*time.Second)
		case <-o.ctx.Done():
			return
		}
	}
}

func (d *dog) dismiss() {
	d.mu.Lock()
	d.dismissed = true
	w := d.w
	d.mu.Unlock()
	if w != nil {
		w.Dismiss()
	}
}
