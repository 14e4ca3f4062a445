package logfile

// A disk that is full: the writer goes on, the loss is counted and told, and
// what was kept stays.

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/custody-project/custody/proof"
	"golang.org/x/sys/unix"
)

// smallDisk is a scope on a file system of its own.
func smallDisk(t *testing.T, options string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount; TestFileSizeLimit is for everybody")
	}
	dir := t.TempDir()
	must(t, unix.Mount("tmpfs", dir, "tmpfs", 0, options+",mode=700"))
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

func fill(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "ballast")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	must(t, err)
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	return path
}

func TestFullDisk(t *testing.T) {
	dir, id := smallDisk(t, "size=256k"), proof.NewID()
	w := openLog(t, dir, id, Config{MaxBytes: 32 << 10, Files: 4})
	write(t, w, numberedLines(0, 1500)) // some files
	write(t, w, "no line end yet")
	before := read(t, dir, id, Reading{})
	ballast := fill(t, dir)
	began := time.Now()
	for range 1000 {
		write(t, w, strings.Repeat("lost\n", 2000))
	}
	t.Logf("1000 writes on a full disk: %v", time.Since(began))
	lost, cause := w.Lost()
	if lost == 0 || cause != syscall.ENOSPC {
		t.Fatalf("lost %d: %v", lost, cause)
	}
	until(t, "the loss is told while it lasts", func() bool { return Lost(dir, id) == lost })
	during := read(t, dir, id, Reading{})
	if !strings.HasPrefix(during, before) {
		t.Error("old output was given up on a full disk")
	}
	must(t, os.Remove(ballast))
	until(t, "the log says it", func() bool { return strings.HasSuffix(read(t, dir, id, Reading{}), "]\n") })
	write(t, w, "and on it goes\n")
	after := read(t, dir, id, Reading{})
	if want := fmt.Sprintf("\n[custody: %d bytes of output lost: no space left on device]\nand on it goes\n", lost); !strings.HasSuffix(after, want) {
		t.Errorf("the log ends with %q, want %q", after[max(0, len(after)-200):], want)
	}
	if n, _ := w.Lost(); n != lost {
		t.Errorf("lost %d, then %d", lost, n)
	}
}

// When the disk is full at the very moment of a rotation the old files make
// room for the new, and without an inode for one more file they all stay.
func TestFullDiskAtRotation(t *testing.T) {
	t.Run("no block", func(t *testing.T) {
		dir, id := smallDisk(t, "size=256k"), proof.NewID()
		w := openLog(t, dir, id, Config{MaxBytes: 16 << 10, Files: 4})
		write(t, w, numberedLines(0, 2000)) // all four files
		next := 2000
		for newest := int64(0); newest <= 12<<10; next++ { // on to the last page of the newest
			write(t, w, numberedLines(next, next+1))
			fi, err := os.Stat(Path(dir, id))
			must(t, err)
			newest = fi.Size()
		}
		fill(t, dir)
		write(t, w, numberedLines(next, 6000))
		if lost, cause := w.Lost(); lost > 0 {
			t.Errorf("lost %d bytes: %v", lost, cause)
		}
		expectInOrder(t, read(t, dir, id, Reading{}), 5999)
	})
	t.Run("no inode", func(t *testing.T) {
		dir, id := smallDisk(t, "size=4m,nr_inodes=20"), proof.NewID()
		w := openLog(t, dir, id, Config{MaxBytes: 16 << 10, Files: 4})
		write(t, w, numberedLines(0, 2000))
		ballast := filepath.Join(dir, "ballast")
		must(t, os.Mkdir(ballast, 0o700))
		for i := 0; ; i++ {
			if err := os.WriteFile(filepath.Join(ballast, strconv.Itoa(i)), nil, 0o600); err != nil {
				break
			}
		}
		before, _ := os.ReadFile(Path(dir, id) + ".3")
		write(t, w, strings.Repeat("more\n", 20000))
		if lost, cause := w.Lost(); lost == 0 || cause != syscall.ENOSPC {
			t.Fatalf("lost %d: %v", lost, cause)
		}
		if after, _ := os.ReadFile(Path(dir, id) + ".3"); string(after) != string(before) || len(before) == 0 {
			t.Error("the oldest file was given up for nothing")
		}
		must(t, os.RemoveAll(ballast))
		until(t, "the log says it", func() bool {
			return strings.Contains(read(t, dir, id, Reading{Last: 1}), "bytes of output lost: no space left on device]")
		})
		write(t, w, numberedLines(0, 100))
		if got := read(t, dir, id, Reading{Last: 100}); got != numberedLines(0, 100) {
			t.Errorf("afterwards: %q", got)
		}
	})
}

// A log that could not even be made begins once there is room.
func TestFullDiskAtOpen(t *testing.T) {
	dir, id := smallDisk(t, "size=64k,nr_inodes=3"), proof.NewID()
	must(t, os.Mkdir(filepath.Join(dir, "logs"), 0o700))
	ballast := filepath.Join(dir, "ballast")
	must(t, os.WriteFile(ballast, nil, 0o600))
	w := openLog(t, dir, id, Config{})
	write(t, w, "lost\n")
	if lost, cause := w.Lost(); lost != 5 || cause != syscall.ENOSPC {
		t.Errorf("lost %d: %v", lost, cause)
	}
	must(t, os.Remove(ballast))
	must(t, unix.Mount("", dir, "", unix.MS_REMOUNT, "size=64k,nr_inodes=10,mode=700"))
	until(t, "the log is made", func() bool { _, err := os.Stat(Path(dir, id)); return err == nil })
	until(t, "the log says it", func() bool {
		return strings.Contains(read(t, dir, id, Reading{}), "[custody: 5 bytes of output lost: no space left on device]\n")
	})
}

// limitedWriter writes under a limit of file size, which needs no root.
func limitedWriter() {
	dir, id := roleArgs()
	limit := func(n uint64) {
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: n, Max: unix.RLIM_INFINITY}); err != nil {
			panic(err)
		}
	}
	limit(2000)
	w, err := Open(dir, id, Config{MaxBytes: 8 << 10, Files: 2})
	if err != nil {
		panic(err)
	}
	for range 100 {
		w.Write([]byte(strings.Repeat("x", 99) + "\n"))
	}
	lost, cause := w.Lost()
	fmt.Println(lost, cause)
	limit(unix.RLIM_INFINITY)
	w.Close()
}

func TestFileSizeLimit(t *testing.T) {
	dir, id := scope(t), proof.NewID()
	out, err := role(t, "limited", dir, id).Output()
	must(t, err)
	if string(out) != "8000 file too large\n" {
		t.Errorf("%q", out)
	}
	got := read(t, dir, id, Reading{})
	if want := "\n[custody: 8000 bytes of output lost: file too large]\n"; !strings.HasSuffix(got, want) || strings.Count(got, "x") != 20*99 {
		t.Errorf("%d bytes: %q", len(got), got[max(0, len(got)-200):])
	}
}
