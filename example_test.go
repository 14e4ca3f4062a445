package custody_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/custody-project/custody"
)

// The program of the README; internal/promises compares the two.
func Example() {
	custody.ServeHelper() // first line: the program serves as its own watchdog and keeper

	ctx := context.Background()
	owner, err := custody.Open(ctx, "browsers", nil) // first cleans up after dead owners of this scope
	if err != nil {
		log.Fatal(err)
	}
	defer owner.Close()

	cmd := owner.Command("firefox-esr", "-headless", "-no-remote", "-profile", "{PROFILE}")
	cmd.Name = "worker-1"               // nobody else holds this name until the tree is proven gone
	cmd.TempDirs = []string{"PROFILE"}  // deleted after the last process, never before
	if err := cmd.Start(); err != nil { // from here on: kill -9 this program, and the tree is gone
		log.Fatal(err)
	}
	fmt.Println("level:", cmd.Launch().Level()) // what was really achieved: group, lineage, cgroup, …

	res, err := cmd.Launch().Stop(ctx) // TERM, ten seconds, KILL; a value with every survivor and why
	fmt.Println(res.Outcome, err)
}

// A server that survives its controller; of the README too.
func ExampleOwner_Adopt() {
	ctx := context.Background()
	owner, err := custody.Open(ctx, "engines", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer owner.Close() // what survives goes on

	server, err := owner.Adopt(ctx, "llama") // of an earlier life of this program
	if errors.Is(err, custody.ErrNotFound) {
		cmd := owner.Command("llama-server", "--port", "8000")
		cmd.Name, cmd.Ports = "llama", []int{8000} // nobody else's until the whole tree is gone
		cmd.Kept, cmd.OnOwnerDeath = true, custody.Survive
		err = cmd.Start()
		server = cmd.Launch()
	}
	if err != nil {
		log.Fatal(err) // another controller has it: the error says which process
	}
	err = server.WaitReady(ctx, custody.Ready{URL: "http://127.0.0.1:8000/health"}) // by a listener proven to be of its tree
	if err != nil {
		log.Fatal(err)
	}
	state, err := server.Wait(ctx) // its true end, also after an adoption
	fmt.Println(state, err)
}
