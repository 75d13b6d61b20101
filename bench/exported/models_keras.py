"""Keras layers, TensorFlow functions with loops and data-decided sizes, and Keras' image networks, by tf2onnx. Yields (name, write)."""
import os

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
import tensorflow as tf  # noqa: E402
import tf2onnx  # noqa: E402

K, L = tf.keras, tf.keras.layers


def spec(*dims, dtype=tf.float32, name='x'):
    return tf.TensorSpec(dims, dtype, name=name)


def by_function(function, *inputs):
    return lambda path: tf2onnx.convert.from_function(tf.function(function), input_signature=list(inputs), opset=15, output_path=path)


def by_model(model, *inputs):
    return by_function(lambda *given: model(given[0] if len(given) == 1 else list(given), training=False), *inputs)


def sequence(shape, *layers):
    return K.Sequential([L.Input(shape), *layers])


RECURRENT = {'lstm': lambda: [L.LSTM(16)], 'lstm_steps': lambda: [L.LSTM(16, return_sequences=True), L.Dense(4)], 'gru': lambda: [L.GRU(16, return_sequences=True)],
             'gru_before': lambda: [L.GRU(16, reset_after=False)], 'both_ways': lambda: [L.Bidirectional(L.LSTM(16, return_sequences=True)), L.GlobalAveragePooling1D()],
             'simple': lambda: [L.SimpleRNN(16)], 'masked': lambda: [L.Masking(), L.LSTM(16)]}
FUNCTIONS = {
    'picks': (lambda x: (tf.math.top_k(x, 3).values, tf.math.cumsum(x, axis=1, exclusive=True, reverse=True), tf.einsum('ij,kj->ik', x, x),
                         tf.reverse_sequence(x, [3, 5, 2, 8], seq_axis=1)), [spec(4, 8)]),
    'resize': (lambda x: (tf.image.resize(x, (7, 5)), tf.image.resize(x, (7, 5), method='nearest'), tf.image.resize(x, (20, 30), method='bicubic')), [spec(1, 8, 9, 3)]),
    'scatter': (lambda x: (tf.tensor_scatter_nd_update(x, [[0, 1], [2, 3]], [1., 2.]), tf.gather_nd(x, [[1, 1], [0, 2]]), tf.one_hot(tf.argmax(x, 1), 8)), [spec(4, 8)]),
    'segments': (lambda x: (tf.math.segment_sum(x, [0, 0, 1, 1]), tf.math.unsorted_segment_max(x, [1, 0, 1, 0], 2)), [spec(4, 8)]),
    'rounds': (lambda x: tf.while_loop(lambda i, a: i < 5, lambda i, a: (i + 1, tf.tanh(a @ a)), [tf.constant(0), x])[1], [spec(8, 8)]),
    'rounds_by_data': (lambda x: tf.while_loop(lambda a: tf.reduce_sum(a) < 100., lambda a: a * 1.5 + 1, [tf.abs(x)])[0], [spec(8, 8)]),
    'branch': (lambda x: tf.cond(tf.reduce_sum(x) > 0, lambda: x * 2, lambda: x - 1), [spec(8, 8)]),
    'map': (lambda x: tf.map_fn(lambda r: tf.nn.softmax(r) * tf.reduce_max(r), x), [spec(6, 8)]),
    'boxes': (lambda b, s: tf.gather(b, tf.image.non_max_suppression(b, s, 10, iou_threshold=0.4)), [spec(50, 4, name='b'), spec(50, name='s')]),
    'unique': (lambda x: tf.unique(tf.cast(x * 3, tf.int32)), [spec(30)]),
    'mask': (lambda x: tf.boolean_mask(x, tf.reduce_sum(x, 1) > 0) * 2, [spec(10, 4)]),
    'spectrum': (lambda x: tf.abs(tf.signal.stft(x, 64, 32)), [spec(1, 512)]),
}


def keras():
    tf.random.set_seed(1)
    for name, layers in RECURRENT.items():
        model = sequence((20, 8), *layers())
        yield 'keras_' + name, by_model(model, spec(2, 20, 8))
    yield 'keras_conv_lstm', by_model(sequence((5, 16, 16, 3), L.ConvLSTM2D(8, 3, padding='same')), spec(1, 5, 16, 16, 3))
    yield 'keras_conv1d', by_model(sequence((64, 8), L.Conv1D(16, 5, padding='causal', dilation_rate=2), L.MaxPool1D(2), L.SeparableConv1D(8, 3)), spec(2, 64, 8))
    yield 'keras_conv3d', by_model(sequence((8, 16, 16, 2), L.Conv3D(8, 3, strides=2, padding='same'), L.AveragePooling3D(2, padding='same'),
                                            L.Conv3DTranspose(4, 3, strides=2, padding='same')), spec(1, 8, 16, 16, 2))
    yield 'keras_transposed', by_model(sequence((16, 16, 8), L.Conv2DTranspose(6, 4, strides=2, padding='same'), L.Conv2DTranspose(6, 3, strides=2, padding='valid'),
                                                L.UpSampling2D(2, interpolation='bilinear'), L.UpSampling2D(2)), spec(1, 16, 16, 8))
    yield 'keras_norms', by_model(sequence((16, 16, 8), L.BatchNormalization(), L.LayerNormalization(), L.GroupNormalization(4), L.UnitNormalization()), spec(2, 16, 16, 8))
    x = L.Input((12, 32))
    yield 'keras_attention', by_model(K.Model(x, L.LayerNormalization()(x + L.MultiHeadAttention(4, 8)(x, x, use_causal_mask=True))), spec(2, 12, 32))
    words = L.Input((10,), dtype='int32')
    yield 'keras_words', by_model(K.Model(words, L.LSTM(8)(L.Embedding(100, 16, mask_zero=True)(words))), spec(2, 10, dtype=tf.int32))
    for name, (function, inputs) in FUNCTIONS.items():
        yield 'tensorflow_' + name, by_function(function, *inputs)
    for name in 'MobileNet MobileNetV2 MobileNetV3Small EfficientNetB0 EfficientNetV2B0 DenseNet121 ResNet50V2 Xception NASNetMobile InceptionV3'.split():
        make = getattr(K.applications, name)
        yield 'keras_' + name.lower(), lambda path, make=make: by_model(make(weights=None, input_shape=(96, 96, 3)), spec(1, 96, 96, 3))(path)
