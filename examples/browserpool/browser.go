package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"strings"
)

// What differs between browsers: the command, the words before the endpoint,
// and the goodbye in the browser's own protocol.

type browser struct {
	command, says, path string
	goodbye             []string
}

var browsers = map[string]browser{
	"firefox-esr": {"firefox-esr -headless -no-remote --remote-debugging-port=0 -profile {PROFILE}", "WebDriver BiDi listening on ", "/session",
		[]string{`{"id":1,"method":"session.new","params":{"capabilities":{}}}`, `{"id":2,"method":"browser.close","params":{}}`}},
	"chromium": {"chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update " +
		"--disable-sync --remote-debugging-port=0 --user-data-dir={PROFILE}", "DevTools listening on ", "", []string{`{"id":1,"method":"Browser.close"}`}},
}

// bye says goodbye at the browser's endpoint and waits until it has exited. It
// speaks just enough WebSocket for that.
func (b browser) bye(ctx context.Context, endpoint string, exited <-chan struct{}) error {
	req, err := http.NewRequestWithContext(ctx, "GET", "http"+strings.TrimPrefix(endpoint, "ws")+b.path, nil)
	if err != nil {
		return err
	}
	// No Origin header: browsers refuse one they were not told of.
	req.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"},
		"Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"c2F5aW5nIGdvb2RieWUuLg=="}}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	conn, ok := res.Body.(io.ReadWriter)
	if !ok {
		return fmt.Errorf("goodbye at %s: %s", endpoint, res.Status)
	}
	for _, m := range b.goodbye {
		frame := []byte{0x81, 0x80 | byte(len(m)), 1, 1, 1, 1} // text, masked by ones: Firefox hangs up on zeros
		for i := range len(m) {
			frame = append(frame, m[i]^1)
		}
		if _, err := conn.Write(frame); err != nil {
			return err
		}
		if _, err := conn.Read(make([]byte, 4096)); err != nil { // the answer, or its beginning
			return err
		}
	}
	log.Printf("goodbye answered at %s", endpoint)
	select {
	case <-exited:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
