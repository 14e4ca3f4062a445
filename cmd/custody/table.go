package main

import (
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// columns prints an aligned table without rules. On a terminal the last column
// is cut so that no line wraps.
func (s *screen) columns(header []string, rows [][]string) {
	last := len(header) - 1
	used := 0
	for i := range last {
		w := text.StringWidthWithoutEscSequences(header[i])
		for _, r := range rows {
			w = max(w, text.StringWidthWithoutEscSequences(r[i]))
		}
		used += w + 2
	}
	t := table.NewWriter()
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	style.Format.Header = text.FormatDefault
	t.SetStyle(style)
	t.SuppressTrailingSpaces()
	head := table.Row{}
	for _, h := range header {
		head = append(head, s.bold(h))
	}
	t.AppendHeader(head)
	for _, r := range rows {
		row := table.Row{}
		for i, cell := range r {
			if i == last && s.width > 0 {
				cell = s.cut(cell, max(s.width-used, 10))
			}
			row = append(row, cell)
		}
		t.AppendRow(row)
	}
	s.printf("%s\n", strings.TrimRight(t.Render(), "\n"))
}
