// Inside is the only program of the image that the tests import. Whatever it is
// told, it ends by itself within a minute.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

func main() {
	time.AfterFunc(time.Minute, func() { os.Exit(99) })
	do := append(os.Args[1:], "", "")
	switch do[0] {
	case "exit": // CODE, after MILLISECONDS
		ms, _ := strconv.Atoi(do[2])
		time.Sleep(time.Duration(ms) * time.Millisecond)
		code, _ := strconv.Atoi(do[1])
		os.Exit(code)
	case "deaf": // to every signal that can be caught
		signal.Ignore()
	case "eat": // memory, until something says stop
		var all [][]byte
		for {
			b := make([]byte, 1<<20)
			for i := range b {
				b[i] = 1
			}
			all = append(all, b)
			_ = all
		}
	default: // end in order at the first signal, and say which
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGTERM, syscall.SIGINT, syscall.SIGUSR1)
		fmt.Println("ready")
		fmt.Fprintln(os.Stderr, "to stderr")
		fmt.Println("got", <-c)
		os.Exit(0)
	}
	fmt.Println("ready")
	select {}
}
