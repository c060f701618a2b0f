package file

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// maxLine bounds a line that is read whole, in bytes: the largest payload, its base64 growth and the other fields.
const maxLine = 2*maxPayload + 64<<10

// openLocked opens the file and takes its lock. If the file at the path was exchanged while the lock was awaited, it
// starts over: a lock on a file that nobody can reach any more protects nothing.
func openLocked(ctx context.Context, path string, flag int) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, flag, 0o600)
		if err != nil {
			return nil, err
		}
		if err := lock(ctx, f); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		mine, err := f.Stat()
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if !mine.Mode().IsRegular() {
			return nil, errors.Join(fmt.Errorf("%s is not a regular file", path), f.Close())
		}
		if current, err := os.Stat(path); err == nil && os.SameFile(mine, current) {
			return f, nil
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
}

// openForAppend opens the file with its lock held, its first line written and no torn line at its end. Nothing that it
// does makes an effect.
func openForAppend(ctx context.Context, path string) (_ *os.File, size int64, err error) {
	f, err := openLocked(ctx, path, os.O_CREATE|os.O_RDWR|os.O_APPEND)
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	size, err = endOfLastLine(f)
	if err != nil {
		return nil, 0, err
	}
	if info, err := f.Stat(); err != nil {
		return nil, 0, err
	} else if info.Size() > size {
		// A torn line must go before the next one comes: a line feed after it could make it whole, and an effect that
		// a probe has called absent would appear.
		if err := f.Truncate(size); err != nil {
			return nil, 0, fmt.Errorf("cut off a torn line: %w", err)
		}
	}
	if size > 0 {
		_, err := readHeader(f)
		return f, size, err
	}
	first, err := json.Marshal(header{Pawl: headerMark, Since: time.Now().UTC()})
	if err != nil {
		return nil, 0, err
	}
	n, err := f.Write(append(first, '\n'))
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = syncDirectory(path)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("write the first line: %w", err)
	}
	return f, int64(n), nil
}

func syncDirectory(path string) error {
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// endOfLastLine returns the offset behind the last line feed, 0 if there is none.
func endOfLastLine(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	end := info.Size()
	buffer := make([]byte, 4096)
	for end > 0 {
		n := min(int64(len(buffer)), end)
		chunk := buffer[:n]
		if _, err := f.ReadAt(chunk, end-n); err != nil {
			return 0, fmt.Errorf("read the end of %s: %w", f.Name(), err)
		}
		if i := bytes.LastIndexByte(chunk, '\n'); i >= 0 {
			return end - n + int64(i) + 1, nil
		}
		end -= n
	}
	return 0, nil
}

// errForeignFile says that the first line is not ours.
var errForeignFile = errors.New("its first line is not that of a file of effects: give the channel a file of its own")

func readHeader(f *os.File) (header, error) {
	var h header
	first, err := bufio.NewReader(io.NewSectionReader(f, 0, 4096)).ReadBytes('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return h, fmt.Errorf("read the first line of %s: %w", f.Name(), err)
	}
	if err != nil || json.Unmarshal(first, &h) != nil || h.Pawl != headerMark || h.Since.IsZero() {
		return h, fmt.Errorf("%s: %w", f.Name(), errForeignFile)
	}
	return h, nil
}

// unchanged checks that nobody emptied the file while it was read: lines may only have been added.
func unchanged(f *os.File, before header, size int64) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	after, err := readHeader(f)
	if err != nil {
		return err
	}
	if info.Size() < size || !after.Since.Equal(before.Since) {
		return fmt.Errorf("%s was emptied while it was read", f.Name())
	}
	return nil
}

// settle makes sure that a line that was found is on the disk: its writer may have died before the flush, or the flush
// failed. After a flush that failed, the kernel holds what it could not write for written, and the next flush says
// that all is well. So the line is written again, as it is, and then flushed.
func settle(ctx context.Context, f *os.File, began header, size int64, hit *found) error {
	if err := lock(ctx, f); err != nil {
		return err
	}
	if err := unchanged(f, began, size); err != nil {
		return err
	}
	raw := make([]byte, hit.length)
	if _, err := f.ReadAt(raw, hit.offset); err != nil {
		return fmt.Errorf("read the line again: %w", err)
	}
	if _, err := f.WriteAt(raw, hit.offset); err != nil {
		return fmt.Errorf("write the line again: %w", err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	return nil
}

// found is where a token's line is.
type found struct {
	line   line
	offset int64
	length int
}

// search looks for whole lines of the token in the first size bytes, with bounded memory.
func search(ctx context.Context, f *os.File, size int64, token string) (*found, error) {
	prefix := []byte(linePrefix(token))
	reader := bufio.NewReaderSize(io.NewSectionReader(f, 0, size), 256<<10)
	for offset, lines := int64(0), 0; ; lines++ {
		if lines%1024 == 0 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		start, err := reader.Peek(len(prefix))
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if !bytes.Equal(start, prefix) {
			n, whole, err := skipLine(reader)
			if err != nil {
				return nil, err
			}
			if !whole {
				return nil, nil
			}
			offset += n
			continue
		}
		raw, whole, err := readLine(reader)
		if err != nil {
			return nil, fmt.Errorf("the line at offset %d: %w", offset, err)
		}
		if !whole {
			return nil, nil // torn: no effect
		}
		var l line
		if err := json.Unmarshal(raw, &l); err != nil {
			return nil, fmt.Errorf("the line at offset %d begins with the token but is not JSON: %w", offset, err)
		}
		return &found{line: l, offset: offset, length: len(raw)}, nil
	}
}

// skipLine drops one line and says whether it had its end.
func skipLine(r *bufio.Reader) (n int64, whole bool, err error) {
	for {
		part, err := r.ReadSlice('\n')
		n += int64(len(part))
		switch {
		case err == nil:
			return n, true, nil
		case errors.Is(err, io.EOF):
			return n, false, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return n, false, err
		}
	}
}

func readLine(r *bufio.Reader) (raw []byte, whole bool, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if len(raw)+len(part) > maxLine {
			return nil, false, fmt.Errorf("longer than %d bytes", maxLine)
		}
		raw = append(raw, part...)
		switch {
		case err == nil:
			return raw, true, nil
		case errors.Is(err, io.EOF):
			return raw, false, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, false, err
		}
	}
}
