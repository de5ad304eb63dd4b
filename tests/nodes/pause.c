// A container that does nothing: `pause [LISTEN_AFTER [END_AFTER]]`. So many seconds after its start it listens on port 8080,
// or ends with an error; without a number, or with an empty one, never. It obeys SIGTERM at once.
#include <arpa/inet.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static void end(int signal) { _exit(signal == SIGALRM); }

int main(int count, char **words) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(8080)};
  signal(SIGTERM, end);
  signal(SIGALRM, end);
  signal(SIGCHLD, SIG_IGN);
  if (count < 2 || !*words[1])
    for (;;) pause();
  if (count > 2 && *words[2]) alarm(atoi(words[2]));
  sleep(atoi(words[1]));
  int listening = socket(AF_INET, SOCK_STREAM, 0);
  if (bind(listening, (struct sockaddr *)&address, sizeof address) || listen(listening, 16)) return 2;
  for (;;) close(accept(listening, 0, 0));
}
