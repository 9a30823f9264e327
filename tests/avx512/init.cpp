// The first and only process of the emulated machine: runs the tests of the kernels once for AVX2
// and once for AVX-512, then switches off.
#include <sys/reboot.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

int main() {
  const char* const isas[] = {"avx2", "avx512"};
  for (const char* isa : isas) {
    std::printf("== %s\n", isa);
    std::fflush(stdout);
    setenv("HEADROOM_TEST_ISA", isa, 1);
    const pid_t child = fork();
    if (child == 0) {
      // Without those that are left out by default, and the test of 253 scales, which alone would
      // take as long as all the others; those have fifteen of them.
      execl("/test_kernel", "/test_kernel", "~[.]~unscale by every power*", "--use-colour", "no",
            static_cast<char*>(nullptr));
      _exit(127);
    }
    int status = 0;
    waitpid(child, &status, 0);
  }
  std::printf("== done\n");
  std::fflush(stdout);
  tcdrain(STDOUT_FILENO);  // what is still on its way is lost when the power goes
  sleep(5);
  reboot(RB_POWER_OFF);
}
