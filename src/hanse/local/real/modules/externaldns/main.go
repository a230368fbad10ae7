// ExternalDNS with its source of DNSEndpoints and its provider of RFC 2136, and no other provider:
// for tests, which need none of the clouds.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	log "github.com/sirupsen/logrus"

	"sigs.k8s.io/external-dns/endpoint"
	"sigs.k8s.io/external-dns/pkg/apis/externaldns"
	"sigs.k8s.io/external-dns/pkg/apis/externaldns/validation"
	"sigs.k8s.io/external-dns/plan"
	"sigs.k8s.io/external-dns/provider"
	"sigs.k8s.io/external-dns/provider/rfc2136"
	"sigs.k8s.io/external-dns/registry"
	"sigs.k8s.io/external-dns/registry/txt"
	"sigs.k8s.io/external-dns/source"
	"sigs.k8s.io/external-dns/source/annotations"
	"sigs.k8s.io/external-dns/source/wrappers"
)

var version = "unknown"

func main() {
	if slices.Contains(os.Args[1:], "--version") {
		fmt.Println(version)
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

// run synchronises records every interval until the context ends.
func run(ctx context.Context) error {
	config := externaldns.NewConfig()
	if err := config.ParseFlags(os.Args[1:]); err != nil {
		return err
	}
	if err := validation.ValidateConfig(config); err != nil {
		return err
	}
	annotations.SetAnnotationPrefix(config.AnnotationPrefix)
	sourceConfig, err := source.NewSourceConfig(config)
	if err != nil {
		return err
	}
	endpoints, err := wrappers.Build(ctx, sourceConfig)
	if err != nil {
		return err
	}
	filter := endpoint.NewDomainFilter(config.DomainFilter)
	server, err := rfc2136.New(ctx, config, filter)
	if err != nil {
		return err
	}
	records, err := txt.New(config, server)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		if err := synchronize(ctx, config, endpoints, records, filter); err != nil {
			log.Error(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(config.Interval):
		}
	}
	return nil
}

// synchronize brings the records of the name server to what the source wants.
func synchronize(
	ctx context.Context,
	config *externaldns.Config,
	endpoints source.Source,
	records registry.Registry,
	filter *endpoint.DomainFilter,
) error {
	current, err := records.Records(ctx)
	if err != nil {
		return err
	}
	ctx = context.WithValue(ctx, provider.RecordsContextKey, current)
	wanted, err := endpoints.Endpoints(ctx)
	if err != nil {
		return err
	}
	desired, err := records.AdjustEndpoints(wanted)
	if err != nil {
		return err
	}
	changes := (&plan.Plan{
		Policies:       []plan.Policy{plan.Policies[config.Policy]},
		Current:        current,
		Desired:        desired,
		DomainFilter:   endpoint.MatchAllDomainFilters{filter, records.GetDomainFilter()},
		ManagedRecords: config.ManagedDNSRecordTypes,
		OwnerID:        records.OwnerID(),
	}).Calculate().Changes
	if !changes.HasChanges() {
		return nil
	}
	return records.ApplyChanges(ctx, changes)
}
