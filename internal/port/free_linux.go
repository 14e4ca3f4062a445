package port

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Free returns nil if the port can be bound on the wildcard and loopback
// addresses of IPv4 and IPv6. It binds for real, and lets go at once; it never
// listens, so nobody can connect meanwhile.
//
// It binds as servers do, with SO_REUSEADDR: then what the closed connections
// of an ended server leave behind (TIME_WAIT) holds nothing, and is not waited
// for. A system without IPv6 has nothing to bind there.
//
// The error matches ErrHeld if somebody holds the port, fs.ErrPermission if
// this user may not bind it at all.
func Free(port int) error {
	if err := Check(port); err != nil {
		return err
	}
	for _, a := range []struct {
		name   string
		family int
		addr   unix.Sockaddr
	}{
		{"0.0.0.0", unix.AF_INET, &unix.SockaddrInet4{Port: port}},
		{"127.0.0.1", unix.AF_INET, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}},
		{"::", unix.AF_INET6, &unix.SockaddrInet6{Port: port}},
		{"::1", unix.AF_INET6, &unix.SockaddrInet6{Port: port, Addr: [16]byte{15: 1}}},
	} {
		switch err := bind(a.family, a.addr); err {
		case nil:
		case unix.EAFNOSUPPORT, unix.EADDRNOTAVAIL: // no such family here, or no such address
		case unix.EADDRINUSE:
			return fmt.Errorf("port %d can't be bound on %s: %w", port, a.name, ErrHeld)
		case unix.EACCES:
			return fmt.Errorf("port %d can't be bound by this user: low ports need CAP_NET_BIND_SERVICE (net.ipv4.ip_unprivileged_port_start says which): %w", port, err)
		default:
			return fmt.Errorf("port %d can't be bound on %s: %w", port, a.name, err)
		}
	}
	return nil
}

func bind(family int, addr unix.Sockaddr) error {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return err
	}
	if family == unix.AF_INET6 {
		// Its own addresses only, whatever net.ipv6.bindv6only says: those of
		// IPv4 have their own turn.
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1); err != nil {
			return err
		}
	}
	return unix.Bind(fd, addr)
}
