"""PyTorch: single layers and functions, transformers by small configurations, image networks. Each kind yields (name, write)."""
import logging

import torch
from torch import nn
from torch.nn import functional as F

logging.disable(logging.WARNING)
R = torch.randn


def by_trace(model, inputs, opset=17):
    def write(path):
        with torch.no_grad():
            torch.onnx.export(model.eval(), inputs, path, dynamo=False, opset_version=opset)
    return write


def by_graph(model, inputs):
    def write(path):
        with torch.no_grad():
            torch.onnx.export(model.eval(), inputs, path, dynamo=True, opset_version=18, external_data=False, verbose=False)
    return write


def both(name, model, inputs):
    yield name, by_trace(model, inputs)
    yield name + '_graph', by_graph(model, inputs)


class Of(nn.Module):
    """A function of layers and inputs."""
    def __init__(self, function, *layers):
        super().__init__()
        self.function, self.layers = function, nn.ModuleList(layers)

    def forward(self, *inputs):
        return self.function(self.layers, *inputs)


def functions():
    x, where = R(6, 8), torch.tensor([1, 4, 2])
    rows = where.view(1, -1).expand(6, -1)
    return {
        'lstm': (Of(lambda m, x: m[0](x)[0], nn.LSTM(8, 16, 2, batch_first=True, bidirectional=True)), (R(2, 9, 8),)),
        'gru': (Of(lambda m, x: m[0](x), nn.GRU(8, 16, 2)), (R(9, 2, 8),)),
        'rnn': (Of(lambda m, x: m[0](x)[1], nn.RNN(8, 16, nonlinearity='relu')), (R(9, 2, 8),)),
        'multi_head': (Of(lambda m, x: m[0](x, x, x), nn.MultiheadAttention(16, 4, batch_first=True)), (R(2, 7, 16),)),
        'encoder': (nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, activation='gelu'), 2), (R(2, 7, 16),)),
        'decoder': (nn.TransformerDecoder(nn.TransformerDecoderLayer(16, 4, 32, batch_first=True), 2), (R(2, 5, 16), R(2, 7, 16))),
        'causal': (Of(lambda m, q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)), tuple(R(1, 4, 9, 8) for _ in range(3))),
        'fold': (Of(lambda m, x: F.fold(F.unfold(x, 3, padding=1, stride=2), (9, 9), 3, padding=1, stride=2)), (R(1, 4, 9, 9),)),
        'grid': (Of(lambda m, x, g: F.grid_sample(x, g, align_corners=False, padding_mode='reflection')), (R(1, 3, 8, 8), torch.rand(1, 5, 6, 2) * 2 - 1)),
        'interpolate': (Of(lambda m, x: (F.interpolate(x, scale_factor=1.7, mode='bilinear'), F.interpolate(x, size=(5, 11), mode='bicubic', align_corners=True),
                                         F.interpolate(x, scale_factor=2, mode='nearest'))), (R(1, 3, 8, 9),)),
        'pools': (Of(lambda m, x: (F.adaptive_avg_pool2d(x, (3, 5)), F.adaptive_max_pool2d(x, 4), F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
                                   F.max_pool2d(x, 3, 2, 1, 2, ceil_mode=True), F.lp_pool2d(x, 2, 2))), (R(1, 4, 12, 20),)),
        'pads': (Of(lambda m, x: (F.pad(x, (1, 2, 3, 0), 'reflect'), F.pad(x, (1, 2, 3, 0), 'replicate'), F.pad(x, (1, 2, 3, 0), 'circular'), F.pad(x, (-1, 2, 0, -2)),
                                  F.pixel_shuffle(x, 2), F.pixel_unshuffle(x, 2))), (R(1, 8, 6, 10),)),
        'indices': (Of(lambda m, x, i: (x[i % 6], x[:, i], x.gather(1, rows), x.index_select(1, i), x.scatter(1, rows, 0.5), x.masked_fill(x > 0, -1),
                                        x.index_add(1, i, x[:, :3]))), (x, where)),
        'sorts': (Of(lambda m, x: (x.sort(1)[0], x.topk(3, largest=False)[1], x.argsort(1, descending=True), x.cumsum(1))), (R(4, 8),)),
        'statistics': (Of(lambda m, x: (x.std(1), x.var(0, unbiased=False), x.norm(dim=1), x.logsumexp(1), F.cosine_similarity(x, x.flip(0)), F.normalize(x), x.prod(1),
                                        x.amax(1))), (R(5, 8),)),
        'norms': (Of(lambda m, x: tuple(f(x) for f in m) + (F.local_response_norm(x, 3),), nn.GroupNorm(2, 8), nn.InstanceNorm2d(8, affine=True), nn.LayerNorm(7),
                     nn.BatchNorm2d(8)), (R(2, 8, 6, 7),)),
        'activations': (Of(lambda m, x: tuple(f(x) for f in (F.gelu, F.silu, F.mish, F.hardswish, F.hardsigmoid, F.softplus, F.selu, F.celu, F.elu, F.leaky_relu, F.relu6,
                                                             F.logsigmoid, F.tanhshrink, F.softshrink, F.hardshrink, F.softsign))), (R(3, 8),)),
        'triangles': (Of(lambda m, x: (x.tril(-1), x.triu(1), torch.diagonal(x), torch.roll(x, (1, 2), (0, 1)), x.unfold(1, 3, 2), x.repeat_interleave(2, 1),
                                       x.rot90(1, (0, 1)))), (R(6, 7),)),
        'data_sizes': (Of(lambda m, x: (x.nonzero(), x[x > 0], torch.unique((x * 2).round()), torch.where(x > 0.5)[0])), (R(5, 6),)),
        'spectrum': (Of(lambda m, x: torch.stft(x, 32, 8, window=torch.hann_window(32), return_complex=False)), (R(1, 256),)),
        'einsum': (Of(lambda m, a, b: (torch.einsum('bij,bjk->bik', a, b), torch.einsum('bij,bjk->ki', a, b))), (R(2, 3, 4), R(2, 4, 5))),
        'integers': (Of(lambda m, x: (x // 3, x % 4, torch.div(x, 3, rounding_mode='trunc'), torch.fmod(x, 3), torch.remainder(x, -3))), (torch.arange(-8, 8),)),
        'bags': (Of(lambda m, x: m[0](x), nn.EmbeddingBag(20, 6, mode='mean')), (torch.randint(0, 20, (3, 5)),)),
        'convolutions': (Of(lambda m, x: tuple(f(x) for f in m), nn.Conv2d(8, 12, (3, 1), stride=(2, 1), padding=(1, 0), groups=4),
                            nn.ConvTranspose2d(8, 6, 3, 2, 1, 1, groups=2, dilation=2), nn.Conv2d(8, 8, 5, padding=2, groups=8)), (R(1, 8, 11, 13),)),
    }


def layers():
    torch.manual_seed(0)
    for name, (model, inputs) in functions().items():
        yield from both('layer_' + name, model, inputs)


class First(nn.Module):
    """The first result of a model of the transformers library."""
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *inputs):
        return self.model(*inputs).to_tuple()[0]


class Pair(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, source, target):
        return self.model(input_ids=source, decoder_input_ids=target, use_cache=False).logits


def transformers():
    import transformers as T
    torch.manual_seed(0)
    words, mask = torch.randint(0, 90, (1, 12)), torch.ones(1, 12, dtype=torch.long)
    few = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, vocab_size=100)
    heads = dict(num_key_value_heads=2, use_cache=False, **few)
    encoders = {'bert': lambda: T.BertModel(T.BertConfig(**few)), 'roberta': lambda: T.RobertaModel(T.RobertaConfig(**few)), 'mpnet': lambda: T.MPNetModel(T.MPNetConfig(**few)),
                'distilbert': lambda: T.DistilBertModel(T.DistilBertConfig(vocab_size=100, dim=32, n_layers=2, n_heads=4, hidden_dim=64)),
                'albert': lambda: T.AlbertModel(T.AlbertConfig(embedding_size=16, **few)), 'electra': lambda: T.ElectraModel(T.ElectraConfig(embedding_size=16, **few)),
                'deberta': lambda: T.DebertaV2Model(T.DebertaV2Config(relative_attention=True, pos_att_type=['p2c', 'c2p'], **few)),
                'modernbert': lambda: T.ModernBertModel(T.ModernBertConfig(attn_implementation='eager', pad_token_id=0, **few)),
                'xlnet': lambda: T.XLNetModel(T.XLNetConfig(vocab_size=100, d_model=32, n_layer=2, n_head=4, d_inner=64)),
                'longformer': lambda: T.LongformerModel(T.LongformerConfig(attention_window=[8, 8], **few)),
                'funnel': lambda: T.FunnelBaseModel(T.FunnelConfig(vocab_size=100, block_sizes=[1, 1], d_model=32, n_head=4, d_head=8, d_inner=64)),
                'fnet': lambda: T.FNetModel(T.FNetConfig(hidden_size=32, num_hidden_layers=2, intermediate_size=64, vocab_size=100))}
    decoders = {'gpt2': lambda: T.GPT2LMHeadModel(T.GPT2Config(vocab_size=100, n_embd=32, n_layer=2, n_head=4, n_positions=64, use_cache=False)),
                'llama': lambda: T.LlamaForCausalLM(T.LlamaConfig(**heads)), 'qwen2': lambda: T.Qwen2ForCausalLM(T.Qwen2Config(**heads)),
                'gemma': lambda: T.GemmaForCausalLM(T.GemmaConfig(head_dim=8, **heads)), 'mistral': lambda: T.MistralForCausalLM(T.MistralConfig(**heads)),
                'phi': lambda: T.PhiForCausalLM(T.PhiConfig(use_cache=False, **few)), 'gpt_neox': lambda: T.GPTNeoXForCausalLM(T.GPTNeoXConfig(use_cache=False, **few)),
                'opt': lambda: T.OPTForCausalLM(T.OPTConfig(vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, ffn_dim=64, word_embed_proj_dim=32, use_cache=False)),
                'bloom': lambda: T.BloomForCausalLM(T.BloomConfig(vocab_size=100, hidden_size=32, n_layer=2, n_head=4, use_cache=False)),
                'mamba': lambda: T.MambaForCausalLM(T.MambaConfig(vocab_size=100, hidden_size=32, num_hidden_layers=2, state_size=8, use_cache=False))}
    for name, make in encoders.items():
        yield from both('text_' + name, First(make()), (words, mask))
    for name, make in decoders.items():
        yield from both('text_' + name, First(make()), (words,))
    t5 = T.T5Config(vocab_size=100, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0)
    yield 'text_t5', by_trace(Pair(T.T5ForConditionalGeneration(t5)), (words, words[:, :5]))
    sizes = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=32, patch_size=8)
    for name, config, kind in [('vit', T.ViTConfig, T.ViTModel), ('deit', T.DeiTConfig, T.DeiTModel), ('clip', T.CLIPVisionConfig, T.CLIPVisionModel),
                               ('dinov2', T.Dinov2Config, T.Dinov2Model)]:
        yield 'image_' + name, by_trace(First(kind(config(**sizes))), (R(1, 3, 32, 32),))


def torchvision():
    import torchvision as tv
    torch.manual_seed(0)
    for name in ('alexnet shufflenet_v2_x1_0 mobilenet_v3_small regnet_y_400mf convnext_tiny swin_t swin_v2_t efficientnet_v2_s mnasnet1_0 squeezenet1_0 '
                 'wide_resnet50_2').split():
        yield 'tv_' + name, by_trace(getattr(tv.models, name)(weights=None), (R(1, 3, 96, 96),))
    none, small = dict(weights=None, weights_backbone=None), dict(min_size=128, max_size=128)
    detectors = {'ssdlite320_mobilenet_v3_large': {}, 'fasterrcnn_mobilenet_v3_large_320_fpn': {}, 'retinanet_resnet50_fpn': small, 'fcos_resnet50_fpn': small,
                 'maskrcnn_resnet50_fpn': small, 'keypointrcnn_resnet50_fpn': small}
    for name, more in detectors.items():
        yield 'tv_' + name, by_trace(getattr(tv.models.detection, name)(**none, **more), ([torch.rand(3, 128, 128)],), 16)
    for name in ('lraspp_mobilenet_v3_large', 'deeplabv3_mobilenet_v3_large'):
        yield 'tv_' + name, by_trace(getattr(tv.models.segmentation, name)(**none), (R(1, 3, 128, 128),))
    yield 'tv_r2plus1d', by_trace(tv.models.video.r2plus1d_18(weights=None), (R(1, 3, 8, 64, 64),))
    yield 'tv_raft', by_trace(tv.models.optical_flow.raft_small(weights=None), (torch.rand(1, 3, 128, 128), torch.rand(1, 3, 128, 128)))


TIMM = '''mobilevit_xxs edgenext_xx_small levit_128s:224 mixer_b32_224:224 coat_lite_tiny:224 efficientformer_l1:224 fastvit_t8 ghostnet_100 repvgg_a0 hrnet_w18_small
poolformer_s12 visformer_tiny:224 xcit_nano_12_p16_224:224 pvt_v2_b0 cait_xxs24_224:224 crossvit_tiny_240:240 gmixer_24_224:224 convmixer_768_32 nfnet_l0 res2net50_26w_4s
resnest14d skresnet18 tresnet_m dla34 dpn68 selecsls42 gernet_s bat_resnext26ts:128 halonet26t:128 lambda_resnet26t:128 botnet26t_256:256 mobileone_s0 repghostnet_050 tinynet_e:106
starnet_s1 mobilenetv4_conv_small hiera_tiny_224:224 eva02_tiny_patch14_224:224 beit_base_patch16_224:224 twins_svt_small:224 inception_next_tiny rexnet_100 cspresnet50
focalnet_tiny_srf davit_tiny gcvit_xxtiny:224 nextvit_small tiny_vit_5m_224:224 sequencer2d_s:224 mambaout_femto'''.split()


def timm():
    import timm as library
    torch.manual_seed(0)
    for entry in TIMM:
        name, _, size = entry.partition(':')
        side = int(size or 96)
        yield 'timm_' + name, lambda path, name=name, side=side: by_trace(library.create_model(name, pretrained=False), (R(1, 3, side, side),))(path)
