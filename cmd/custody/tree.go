package main

import (
	"fmt"
	"sort"
	"strings"

	"github.com/custody-project/custody"
	"github.com/jedib0t/go-pretty/v6/list"
	"github.com/spf13/cobra"
)

func treeCommand() *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use: "tree", Short: "Show owners, launches and their processes as a tree", Args: none,
		Long: `tree shows scope, owner, launch and processes, each process below its parent.
Processes that something ties to a launch but nothing proves are marked unsure:
they are never signalled.`,
		Example:           `  custody tree --scope browsers`,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			l, err := custody.List(c.Context(), listOptions())
			if err != nil {
				return err
			}
			ls := shown(l.Launches, all)
			switch {
			case global.json:
				err = printJSON(scopesOf(ls))
			case len(ls) == 0:
				out.printf("%s\n", nothingOwned(len(l.Launches)))
			default:
				out.tree(scopesOf(ls))
			}
			if err != nil {
				return err
			}
			return asideError(l.SetAside)
		},
	}
	allFlag(c, &all)
	return c
}

// scopeTree and ownerTree are what tree prints as JSON: the launches of ls,
// grouped.
type scopeTree struct {
	Scope  string      `json:"scope"`
	Owners []ownerTree `json:"owners"`
}

type ownerTree struct {
	custody.OwnerInfo
	Launches []custody.LaunchInfo `json:"launches"`
}

func scopesOf(ls []custody.LaunchInfo) []scopeTree {
	scopes := []scopeTree{}
	at := map[string]int{}
	ownerAt := map[custody.ID]int{}
	for _, l := range ls {
		i, ok := at[l.Scope]
		if !ok {
			i = len(scopes)
			at[l.Scope] = i
			scopes = append(scopes, scopeTree{Scope: l.Scope})
		}
		s := &scopes[i]
		j, ok := ownerAt[l.Owner.ID]
		if !ok {
			j = len(s.Owners)
			ownerAt[l.Owner.ID] = j
			s.Owners = append(s.Owners, ownerTree{OwnerInfo: l.Owner})
		}
		s.Owners[j].Launches = append(s.Owners[j].Launches, l)
	}
	sort.SliceStable(scopes, func(i, j int) bool { return scopes[i].Scope < scopes[j].Scope })
	return scopes
}

func (s *screen) tree(scopes []scopeTree) {
	for _, sc := range scopes {
		s.printf("%s\n", s.bold(sc.Scope))
		w := s.listWriter()
		for _, o := range sc.Owners {
			w.AppendItem(fmt.Sprintf("owner %d %s", o.PID, s.word(life(o.OwnerInfo))))
			w.Indent()
			for _, l := range o.Launches {
				s.launchTree(w, l)
			}
			w.UnIndent()
		}
		for line := range strings.Lines(w.Render() + "\n") {
			s.printf("%s\n", s.cut(strings.TrimRight(line, "\n"), s.width))
		}
	}
}

// launchTree appends one launch: its title, then its processes by parent.
func (s *screen) launchTree(w list.Writer, l custody.LaunchInfo) {
	title := "launch " + s.bold(l.ID.Short())
	if l.Name != "" {
		title += " " + s.bold(l.Name)
	}
	title += " " + s.word(l.State)
	if l.Level != "" {
		title += " at level " + string(l.Level)
	}
	if l.OnOwnerDeath == custody.Survive {
		title += ", survives its owner"
	}
	if len(l.Members) == 0 && l.State != "running" {
		title += s.faint(" (" + shownText(l.Reason) + ")")
	}
	w.AppendItem(title)
	w.Indent()
	kids := map[int][]custody.Member{}
	mine := map[int]bool{}
	for _, m := range l.Members {
		mine[m.PID] = true
	}
	for _, m := range l.Members {
		kids[m.PPID] = append(kids[m.PPID], m)
	}
	var grow func(parent int)
	grow = func(parent int) {
		for _, m := range kids[parent] {
			w.AppendItem(s.process(m, l))
			w.Indent()
			grow(m.PID)
			w.UnIndent()
		}
	}
	if k := l.KeeperPID; k != 0 && len(kids[k]) > 0 {
		w.AppendItem(fmt.Sprintf("%d %s", k, s.faint("keeper")))
		w.Indent()
		grow(k)
		w.UnIndent()
	}
	for _, m := range l.Members { // whose parent is not of the launch
		if !mine[m.PPID] && m.PPID != l.KeeperPID {
			w.AppendItem(s.process(m, l))
			w.Indent()
			grow(m.PID)
			w.UnIndent()
		}
	}
	for _, m := range l.Suspects {
		w.AppendItem(fmt.Sprintf("%d %s %s %s", m.PID, shownText(m.Comm), s.word("unsure"), s.faint(shownText(m.Proof.Reason))))
	}
	w.UnIndent()
}

func (s *screen) process(m custody.Member, l custody.LaunchInfo) string {
	line := shownCommand(m.Command)
	if line == "" {
		line = "[" + shownText(m.Comm) + "]"
	}
	t := fmt.Sprintf("%d %s", m.PID, line)
	if m.PID == l.PID {
		t += s.faint(" (leader)")
	}
	switch m.State {
	case "T", "t":
		t += " (stopped)"
	case "Z":
		t += " (main thread ended)"
	case "D":
		t += " (uninterruptible)"
	}
	return t
}

func (s *screen) listWriter() list.Writer {
	w := list.NewWriter()
	style := list.StyleConnectedLight
	style.CharItemTop, style.CharItemSingle = "├─", "└─"
	if !s.utf8 {
		style = list.Style{CharItemSingle: "`-", CharItemTop: "|-", CharItemFirst: "|-", CharItemMiddle: "|-",
			CharItemVertical: "|  ", CharItemBottom: "`-", CharNewline: "\n"}
	}
	w.SetStyle(style)
	return w
}
