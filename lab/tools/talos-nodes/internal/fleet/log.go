package fleet

import (
	"bufio"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"sync"
	"time"
)

// Entry is a line of the fleet's event log.
type Entry struct {
	N      int            `json:"n"`
	Time   time.Time      `json:"time"`
	Node   string         `json:"node"`
	Kind   string         `json:"kind"` // call, answer, unimplemented, or what happened to a machine
	Method string         `json:"method,omitempty"`
	Of     int            `json:"of,omitempty"` // of an answer: the call's number
	Code   string         `json:"code,omitempty"`
	Text   string         `json:"text,omitempty"`
	Detail map[string]any `json:"detail,omitempty"`
}

// Log keeps what happened, numbered, in memory and in a file.
type Log struct {
	mu      sync.Mutex
	file    *os.File
	entries []Entry
}

// OpenLog goes on with the log of an earlier process.
func OpenLog(path string) (*Log, error) {
	log := &Log{}

	old, err := os.Open(path)
	if err == nil {
		scanner := bufio.NewScanner(old)
		scanner.Buffer(nil, 1<<24)

		for scanner.Scan() {
			var entry Entry
			// The last line of a process that was killed may be half a line.
			if json.Unmarshal(scanner.Bytes(), &entry) == nil && entry.N == len(log.entries)+1 {
				log.entries = append(log.entries, entry)
			}
		}

		old.Close() //nolint:errcheck // only read
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}

	log.file, err = os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)

	return log, err
}

// Add writes an entry and returns its number.
func (l *Log) Add(entry Entry) int {
	l.mu.Lock()
	defer l.mu.Unlock()

	entry.N = len(l.entries) + 1
	entry.Time = time.Now().UTC()
	l.entries = append(l.entries, entry)

	if line, err := json.Marshal(entry); err == nil {
		l.file.Write(append(line, '\n')) //nolint:errcheck // the log in memory is what tests read
	}

	return entry.N
}

// After returns the entries with a number above n.
func (l *Log) After(n int) []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()

	if n < 0 || n >= len(l.entries) {
		return []Entry{}
	}

	return append([]Entry{}, l.entries[n:]...)
}
