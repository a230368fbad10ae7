// netcheck answers and makes connections, for pods that show whether packets arrive.
//
//	netcheck serve [--http PORT,...] [--tcp PORT,...] [--udp PORT,...]   answer with cluster, pod and client
//	netcheck http|tcp|udp [-n COUNT] [-every DURATION] [-timeout DURATION] TARGET   print each answer
//	netcheck lookup NAME                                                 print addresses, one per line
//	netcheck srv NAME                                                    print port and target, one per line
//	netcheck pause                                                       wait, and reap orphans
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sort"
	"strings"
	"syscall"
	"time"
)

var version = "unknown"

func main() {
	given := os.Args[1:]
	if len(given) > 0 && given[0] == "netcheck" { // as images with another entrypoint take it
		given = given[1:]
	}
	if len(given) == 0 {
		fail(errors.New("give one of serve, http, tcp, udp, lookup, srv, pause"))
	}
	switch command, arguments := given[0], given[1:]; command {
	case "serve":
		fail(serve(arguments))
	case "http", "tcp", "udp":
		fail(dial(command, arguments))
	case "lookup":
		fail(lookup(arguments[0]))
	case "srv":
		fail(lookupServers(arguments[0]))
	case "pause":
		pause()
	case "--version":
		fmt.Println(version)
	default:
		fail(fmt.Errorf("there is no command %s", command))
	}
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// answer names this server and the client that it sees.
func answer(client string) string {
	host, _, err := net.SplitHostPort(client)
	if err != nil {
		host = client
	}
	name, _ := os.Hostname()
	return fmt.Sprintf("%s %s %s\n", os.Getenv("CLUSTER"), name, host)
}

func serve(arguments []string) error {
	flags := flag.NewFlagSet("serve", flag.ExitOnError)
	ports := map[string]*string{}
	for _, protocol := range []string{"http", "tcp", "udp"} {
		ports[protocol] = flags.String(protocol, "", "ports, comma-separated")
	}
	flags.Parse(arguments)
	servers := map[string]func(string) error{"http": serveHTTP, "tcp": serveTCP, "udp": serveUDP}
	ended := make(chan error)
	for protocol, server := range servers {
		for _, port := range strings.FieldsFunc(*ports[protocol], func(r rune) bool { return r == ',' }) {
			go func() { ended <- server(":" + port) }()
		}
	}
	go func() {
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
		<-signals
		ended <- nil
	}()
	return <-ended
}

func serveHTTP(address string) error {
	return http.ListenAndServe(address, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(os.Stdout, "%s %s from %s\n", r.Method, r.URL, r.RemoteAddr)
		io.WriteString(w, answer(r.RemoteAddr))
	}))
}

func serveTCP(address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	for {
		connection, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer connection.Close()
			io.WriteString(connection, answer(connection.RemoteAddr().String()))
		}()
	}
}

func serveUDP(address string) error {
	listener, err := net.ListenPacket("udp", address)
	if err != nil {
		return err
	}
	buffer := make([]byte, 512)
	for {
		_, client, err := listener.ReadFrom(buffer)
		if err != nil {
			return err
		}
		listener.WriteTo([]byte(answer(client.String())), client)
	}
}

// dial makes each connection anew; it fails if one of them did.
func dial(protocol string, arguments []string) error {
	flags := flag.NewFlagSet(protocol, flag.ExitOnError)
	count := flags.Int("n", 1, "number of connections")
	every := flags.Duration("every", 0, "time from one connection to the next; adds the time and result to each line")
	timeout := flags.Duration("timeout", 2*time.Second, "for one connection and its answer")
	flags.Parse(arguments)
	if flags.NArg() != 1 {
		return errors.New("give one target")
	}
	var failed error
	for i := range *count {
		began := time.Now()
		text, err := ask(protocol, flags.Arg(0), *timeout)
		if err != nil {
			failed = err
		}
		if *every > 0 {
			fmt.Println(began.UnixMilli(), time.Now().UnixMilli(), outcome(text, err))
			if i+1 < *count {
				time.Sleep(time.Until(began.Add(*every)))
			}
		} else if err == nil {
			fmt.Println(text)
		}
	}
	return failed
}

func outcome(text string, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	return text
}

func ask(protocol, target string, timeout time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if protocol == "http" {
		return askHTTP(ctx, target)
	}
	connection, err := new(net.Dialer).DialContext(ctx, protocol, target)
	if err != nil {
		return "", err
	}
	defer connection.Close()
	connection.SetDeadline(time.Now().Add(timeout))
	if protocol == "udp" {
		if _, err := connection.Write([]byte("?")); err != nil {
			return "", err
		}
	}
	buffer := make([]byte, 512)
	size, err := connection.Read(buffer)
	return strings.TrimSpace(string(buffer[:size])), err
}

func askHTTP(ctx context.Context, target string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, "GET", target, nil)
	if err != nil {
		return "", err
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	return strings.TrimSpace(string(body)), err
}

func lookup(name string) error {
	addresses, err := net.LookupHost(name)
	sort.Strings(addresses)
	for _, address := range addresses {
		fmt.Println(address)
	}
	return err
}

func lookupServers(name string) error {
	_, servers, err := net.LookupSRV("", "", name)
	for _, server := range servers {
		fmt.Println(server.Port, server.Target)
	}
	return err
}

func pause() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGCHLD)
	for received := range signals {
		if received != syscall.SIGCHLD {
			return
		}
		for {
			if pid, _ := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 {
				break
			}
		}
	}
}
