package custody

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// One GET, and the number of its answer. It is written out by hand: net/http
// would be linked into every program that uses the library, and into the
// keepers, for a line each way.

// answerTime bounds one request.
const answerTime = 5 * time.Second

// localURL reads an http URL that names this host, and its port.
func localURL(s string) (*url.URL, int, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" || u.Host == "" || u.User != nil {
		return nil, 0, errors.New("want port, port:N, log:REGEXP or an http URL, as in http://127.0.0.1:8000/health")
	}
	n := 80
	if p := u.Port(); p != "" {
		if n, err = strconv.Atoi(p); err != nil || n < 1 || n > 65535 {
			return nil, 0, fmt.Errorf("port %.20q: want 1 to 65535", p)
		}
	}
	if !isLocal(u.Hostname()) {
		return nil, 0, fmt.Errorf("%s is not this host: name localhost or one of its addresses", u.Hostname())
	}
	return u, n, nil
}

// isLocal reports whether a host is this one, without asking a name server.
func isLocal(name string) bool {
	if strings.EqualFold(name, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(name)
	if err != nil {
		return false
	}
	if ip.IsLoopback() || ip.IsUnspecified() {
		return true
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr() == ip.WithZone("") {
			return true
		}
	}
	return false
}

// answers returns nil if a GET of the URL is answered with 200 to 299.
func answers(ctx context.Context, u *url.URL) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	host, num := u.Hostname(), u.Port()
	if num == "" {
		num = "80"
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", net.JoinHostPort(host, num))
	if err != nil {
		return fmt.Errorf("GET %s: %w", u, err)
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })()
	_, err = fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: custody\r\nAccept: */*\r\nConnection: close\r\n\r\n", u.RequestURI(), u.Host)
	if err != nil {
		return fmt.Errorf("GET %s: %w", u, err)
	}
	r := bufio.NewReader(io.LimitReader(c, 1<<20))
	line, err := r.ReadString('\n')
	if err != nil {
		return fmt.Errorf("GET %s: %w", u, err)
	}
	code := 0
	if n, _ := fmt.Sscanf(line, "HTTP/1.%1d %3d", new(int), &code); n != 2 {
		return fmt.Errorf("GET %s: no HTTP answer: %.40q", u, line)
	}
	if code < 200 || code > 299 {
		return fmt.Errorf("GET %s: answered %s", u, strings.TrimSpace(line))
	}
	// A server that is cut off complains in its log; one that streams is.
	c.SetReadDeadline(time.Now().Add(time.Second))
	io.Copy(io.Discard, r)
	return nil
}
