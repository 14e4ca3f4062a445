package main

import (
	"encoding/json"
	"errors"
	"strings"
)

// splitCommand reads a command given as one flag: a JSON array of strings, for
// programs, or words quoted as for a shell, for people. No shell sees it:
// nothing is expanded, and what only a shell could do is refused.
func splitCommand(s string) ([]string, error) {
	if strings.HasPrefix(strings.TrimSpace(s), "[") {
		var words []string
		if err := json.Unmarshal([]byte(s), &words); err != nil || len(words) == 0 {
			return nil, errors.New("want a JSON array of strings")
		}
		return words, nil
	}
	var words []string
	var word strings.Builder
	inWord := false
	for rest := s; rest != ""; {
		c := rest[0]
		rest = rest[1:]
		switch {
		case strings.IndexByte(" \t\n", c) >= 0:
			if inWord {
				words = append(words, word.String())
				word.Reset()
				inWord = false
			}
			continue
		case c == '\'':
			text, after, ok := strings.Cut(rest, "'")
			if !ok {
				return nil, errors.New("a ' is not closed")
			}
			word.WriteString(text)
			rest = after
		case c == '"':
			n, ok := doubleQuoted(&word, rest)
			if !ok {
				return nil, errors.New("a \" is not closed")
			}
			rest = rest[n:]
		case c == '\\':
			if rest == "" {
				return nil, errors.New("it ends with a \\")
			}
			word.WriteByte(rest[0])
			rest = rest[1:]
		case strings.IndexByte("|&;<>()$`*?#~", c) >= 0:
			return nil, errors.New("no shell reads it, so " + string(c) + " has no meaning; quote it, or write sh -c '…'")
		default:
			word.WriteByte(c)
		}
		inWord = true
	}
	if inWord {
		words = append(words, word.String())
	}
	if s != "" && len(words) == 0 {
		return nil, errors.New("no command")
	}
	return words, nil
}

// doubleQuoted adds what stands up to the closing quote, and returns where that
// ends. A backslash takes its meaning from " and itself only.
func doubleQuoted(word *strings.Builder, s string) (n int, ok bool) {
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return i + 1, true
		case s[i] == '\\' && i+1 < len(s) && strings.IndexByte("\"\\$`", s[i+1]) >= 0:
			i++
		}
		word.WriteByte(s[i])
	}
	return 0, false
}
