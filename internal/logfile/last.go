package logfile

import (
	"bytes"
)

// last finds where the last n lines begin: the number of the file, and the
// offset in it. A line that is not ended counts as one.
func (s *snapshot) last(n int) (file int, off int64) {
	if n == 0 {
		i := len(s.files) - 1
		return i, s.infos[i].Size()
	}
	buf := make([]byte, 32<<10)
	very := true // at the very end of the log
	for i := len(s.files) - 1; i >= 0; i-- {
		for end := s.infos[i].Size(); end > 0; {
			from := max(0, end-int64(len(buf)))
			// What was emptied meanwhile reads as less, and is no line.
			k, _ := s.files[i].ReadAt(buf[:end-from], from)
			b := buf[:k]
			if very && k > 0 {
				b, very = bytes.TrimSuffix(b, []byte("\n")), false
			}
			for {
				nl := bytes.LastIndexByte(b, '\n')
				if nl < 0 {
					break
				}
				if n--; n == 0 {
					return i, from + int64(nl) + 1
				}
				b = b[:nl]
			}
			end = from
		}
	}
	return 0, 0
}
