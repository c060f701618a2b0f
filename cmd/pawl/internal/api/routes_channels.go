package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawlworks/pawl/sdk/pawlclient"
)

type (
	// ChannelPath is the channel in a path.
	ChannelPath struct {
		Channel string `path:"channel" maxLength:"128" doc:"The channel's name, escaped: mail%2Fshop"`
	}
	channelOutput struct{ Body pawlclient.Channel }
	channelList   struct {
		Channels []pawlclient.Channel `json:"channels" nullable:"false"`
	}
	pauseChannel struct {
		By     string `json:"by,omitempty" maxLength:"200" doc:"Who; left out, the token's name"`
		Reason string `json:"reason" minLength:"1" maxLength:"2000" doc:"Why, for whoever resumes it"`
	}
	resumeChannel struct {
		By string `json:"by,omitempty" maxLength:"200" doc:"Who; left out, the token's name"`
	}
	flagChannel struct {
		By   string `json:"by,omitempty" maxLength:"200" doc:"Who; left out, the token's name"`
		Flag string `json:"flag" enum:"on,off,paused,shadow"`
	}
)

func (h *handler) addChannels(api huma.API) {
	readers, operators := []string{pawlclient.ScopeRead}, []string{pawlclient.ScopeOperate}
	const at = "/v1/channels/{channel}"
	add(h, api, operation{
		method: http.MethodGet, path: "/v1/channels", id: "list-channels", tag: "Channels", scopes: readers, summary: "List the channels with what waits on each",
	}, func(ctx context.Context, _ *struct{}) (*struct{ Body channelList }, error) {
		found, err := h.Service.Channels(ctx)
		return &struct{ Body channelList }{channelList{found}}, err
	})
	add(h, api, operation{
		method: http.MethodGet, path: at, id: "get-channel", tag: "Channels", scopes: readers, summary: "Get a channel",
		text: "health is what the answering process sees of the adapter; it is left out where that process runs none.",
	}, func(ctx context.Context, in *ChannelPath) (*channelOutput, error) {
		c, err := h.Service.Channel(ctx, in.Channel)
		return &channelOutput{c}, err
	})
	add(h, api, operation{
		method: http.MethodPost, path: at + "/pause", id: "pause-channel", tag: "Channels", scopes: operators, summary: "Stop sending on a channel; claims are still taken",
	}, func(ctx context.Context, in *struct {
		ChannelPath
		Body pauseChannel
	}) (*channelOutput, error) {
		c, err := h.Service.PauseChannel(ctx, in.Channel, in.Body.By, in.Body.Reason)
		return &channelOutput{c}, err
	})
	add(h, api, operation{
		method: http.MethodPost, path: at + "/resume", id: "resume-channel", tag: "Channels", scopes: operators, summary: "Let a paused channel send again",
	}, func(ctx context.Context, in *struct {
		ChannelPath
		Body resumeChannel
	}) (*channelOutput, error) {
		c, err := h.Service.ResumeChannel(ctx, in.Channel, in.Body.By)
		return &channelOutput{c}, err
	})
	add(h, api, operation{
		method: http.MethodPost, path: at + "/flag", id: "set-flag", tag: "Channels", scopes: operators, summary: "Say what a channel does with claims",
		text: "on: taken and sent. off: refused. paused: taken, and they wait. shadow: everything but the send; turning the flag on later sends nothing that was claimed in shadow.",
	}, func(ctx context.Context, in *struct {
		ChannelPath
		Body flagChannel
	}) (*channelOutput, error) {
		c, err := h.Service.SetFlag(ctx, in.Channel, in.Body.By, in.Body.Flag)
		return &channelOutput{c}, err
	})
}
