/* The smallest members there are: a leader that forks N-1 children which only
 * sleep. Each ends by itself after LIFE seconds, and with the one that forked
 * it. The leader writes a byte to standard output when all are there.
 *
 *	members N LIFE [eof]
 *
 * With "eof" the leader ends at the end of its standard input. */
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 1;
	int life = argc > 2 ? atoi(argv[2]) : 60;
	char c;

	alarm(life);
	for (int i = 1; i < n; i++) {
		switch (fork()) {
		case -1:
			return 1;
		case 0:
			alarm(life); /* not inherited */
			if (argc > 4)
				prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (;;)
				pause();
		}
	}
	if (write(1, "r", 1) != 1)
		return 1;
	if (argc > 3) {
		while (read(0, &c, 1) > 0)
			;
		return 0;
	}
	for (;;)
		pause();
}
