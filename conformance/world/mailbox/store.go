package mailbox

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
)

// store keeps the accepted mails, in memory and, if it has a file, on disk before the sender hears of it.
type store struct {
	mu   sync.Mutex
	file *os.File
	rows []Delivery
}

func openStore(path string) (*store, error) {
	if path == "" {
		return &store{}, nil
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open StorePath: %w", err)
	}
	s := &store{file: file}
	if err := s.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("read StorePath %s: %w", path, err), file.Close())
	}
	directory, err := os.Open(filepath.Dir(path))
	if err == nil {
		err = errors.Join(directory.Sync(), directory.Close())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("flush the directory of StorePath: %w", err), file.Close())
	}
	return s, nil
}

// load reads the rows. A last line without its end was never answered with 250: it is cut off.
func (s *store) load() error {
	reader := bufio.NewReader(s.file)
	var end int64
	for {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		var d Delivery
		if err := json.Unmarshal(line, &d); err != nil {
			return fmt.Errorf("row %d: %w", len(s.rows)+1, err)
		}
		s.rows = append(s.rows, d)
		end += int64(len(line))
	}
	if err := s.file.Truncate(end); err != nil {
		return err
	}
	_, err := s.file.Seek(end, io.SeekStart)
	return err
}

// add numbers and keeps the rows of one mail, all or none.
func (s *store) add(rows []Delivery) ([]Delivery, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var lines []byte
	for i := range rows {
		rows[i].Seq = len(s.rows) + i + 1
		line, err := json.Marshal(rows[i])
		if err != nil {
			return nil, err
		}
		lines = append(append(lines, line...), '\n')
	}
	if s.file != nil {
		if _, err := s.file.Write(lines); err != nil {
			return nil, err
		}
		if err := s.file.Sync(); err != nil {
			return nil, err
		}
	}
	s.rows = append(s.rows, rows...)
	return rows, nil
}

func (s *store) all() []Delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Delivery(nil), s.rows...)
}

func (s *store) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return nil
	}
	file := s.file
	s.file = nil
	return file.Close()
}
