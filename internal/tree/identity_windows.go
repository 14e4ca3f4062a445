// Windows has neither groups nor sessions of the kind the other fields name.

package tree

import "os"

func identify() Proc { return identityOf(os.Getpid()) }

func identityOf(pid int) Proc { return Proc{PID: pid} }
