package promises

import (
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/custody-project/custody/internal/ledger"
	"github.com/custody-project/custody/proof"
)

const top = "../.."

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(top, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// files calls f for every file of the module with the extension.
func files(t *testing.T, ext string, f func(path string)) {
	t.Helper()
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != top && (strings.HasPrefix(d.Name(), ".") || slices.Contains([]string{"bin", "vendor", "tools", "testdata"}, d.Name())) {
			return filepath.SkipDir
		}
		if filepath.Ext(path) == ext {
			f(path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Every test that a document names exists.
func TestNamedTestsExist(t *testing.T) {
	have := map[string]bool{}
	def := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)\w*)\(`)
	files(t, ".go", func(path string) {
		if strings.HasSuffix(path, "_test.go") {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range def.FindAllStringSubmatch(string(b), -1) {
				have[m[1]] = true
			}
		}
	})
	use := regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w*)`")
	named := 0
	files(t, ".md", func(path string) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range use.FindAllStringSubmatch(string(b), -1) {
			if named++; !have[m[1]] {
				t.Errorf("%s names %s: there is no such test", path, m[1])
			}
		}
	})
	if named < 20 {
		t.Errorf("the documents name %d tests, want the many that guard the promises", named)
	}
}

// docs/testing.md tells of every mechanism that can be taken away, and of none
// that can't.
func TestMechanismsPage(t *testing.T) {
	page := read(t, "docs/testing.md")
	_, page, _ = strings.Cut(page, "## Taking mechanisms away")
	page, _, _ = strings.Cut(page, "\n## ")
	told, taken := map[string]bool{}, map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z]+)` \\|").FindAllStringSubmatch(page, -1) {
		told[m[1]] = true
	}
	use := regexp.MustCompile(`\bWithout\("([a-z]+)"\)`)
	files(t, ".go", func(path string) {
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range use.FindAllStringSubmatch(string(b), -1) {
			taken[m[1]] = true
		}
	})
	if !reflect.DeepEqual(told, taken) || len(taken) < 5 {
		t.Errorf("told %v\nin the code %v", told, taken)
	}
}

// No promise is without a test.
func TestEveryPromiseIsGuarded(t *testing.T) {
	arch := read(t, "ARCHITECTURE.md")
	for _, p := range []string{"I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8"} {
		row := regexp.MustCompile(`(?m)^\| ` + p + ` \|.*$`).FindString(arch)
		if !strings.Contains(row, "`Test") {
			t.Errorf("ARCHITECTURE.md: promise %s names no test: %q", p, row)
		}
	}
	guarantees := read(t, "docs/guarantees.md")
	death := guarantees[strings.Index(guarantees, "## After a death"):strings.Index(guarantees, "## What does not hold")]
	for line := range strings.Lines(death) {
		if strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| who") && !strings.HasPrefix(line, "| promise") &&
			!strings.HasPrefix(line, "| ---") && !strings.Contains(line, "`Test") {
			t.Errorf("docs/guarantees.md: no test shows %q", line)
		}
	}
}

// docs/records.md tells of every field, and of none that is not there.
func TestRecordsPage(t *testing.T) {
	page := read(t, "docs/records.md")
	section := func(title string) string {
		_, rest, ok := strings.Cut(page, "\n## "+title+"\n")
		if !ok {
			t.Fatalf("docs/records.md: no section %q", title)
		}
		body, _, _ := strings.Cut(rest, "\n## ")
		return body
	}
	word := regexp.MustCompile("`([a-z_]+)`")
	check := func(title string, of reflect.Type, inner ...reflect.Type) {
		told := map[string]bool{}     // in the first column
		anywhere := map[string]bool{} // in the row
		for line := range strings.Lines(section(title)) {
			cells := strings.Split(line, "|")
			if len(cells) < 3 {
				continue
			}
			for _, m := range word.FindAllStringSubmatch(cells[1], -1) {
				told[m[1]] = true
			}
			for _, m := range word.FindAllStringSubmatch(line, -1) {
				anywhere[m[1]] = true
			}
		}
		want := fields(of)
		for _, f := range want {
			if !told[f] {
				t.Errorf("docs/records.md, %s: field %s is missing", title, f)
			}
			delete(told, f)
		}
		for f := range told {
			t.Errorf("docs/records.md, %s: there is no field %s", title, f)
		}
		for _, in := range inner {
			for _, f := range fields(in) {
				if !anywhere[f] {
					t.Errorf("docs/records.md, %s: field %s of %s is missing", title, f, in.Name())
				}
			}
		}
	}
	check("A launch", reflect.TypeFor[ledger.Record](), reflect.TypeFor[ledger.Phase](), reflect.TypeFor[ledger.Asset](),
		reflect.TypeFor[ledger.Cgroup](), reflect.TypeFor[ledger.Exit](), reflect.TypeFor[ledger.Container](), reflect.TypeFor[ledger.Log](), reflect.TypeFor[ledger.StopHook]())
	check("An identity", reflect.TypeFor[proof.Identity]())
	check("An owner", reflect.TypeFor[ledger.OwnerRecord]())
}

func fields(t reflect.Type) []string {
	var out []string
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		out = append(out, name)
	}
	return out
}

// The README's programs are the compiled ones.
func TestReadmeExample(t *testing.T) {
	compiled, n := read(t, "example_test.go"), 0
	for _, block := range strings.Split(read(t, "README.md"), "```go\n")[1:] {
		body, _, _ := strings.Cut(block, "```")
		if main, ok := strings.CutPrefix(body, "func main() {\n"); ok {
			body = "func Example() {\n" + main
		} else {
			body = regexp.MustCompile(`(?m)^(.)`).ReplaceAllString(body, "\t$1") // the inside of a function
		}
		if n++; !strings.Contains(compiled, body) {
			t.Errorf("README.md shows what example_test.go does not have:\n%s", body)
		}
	}
	if n != 2 {
		t.Errorf("README.md shows %d programs, want 2", n)
	}
}

// Every direct dependency earns its line.
func TestDependenciesAreExplained(t *testing.T) {
	arch := read(t, "ARCHITECTURE.md")
	direct := regexp.MustCompile(`(?m)^(?:require )?\t?([a-z][\w./-]+\.[\w./-]+) v\S+$`)
	n := 0
	for _, m := range direct.FindAllStringSubmatch(read(t, "go.mod"), -1) {
		if n++; !strings.Contains(arch, "`"+m[1]+"`") {
			t.Errorf("ARCHITECTURE.md does not say why %s is needed", m[1])
		}
	}
	if n < 3 {
		t.Errorf("go.mod: %d direct dependencies found", n)
	}
}
