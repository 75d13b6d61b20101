"""Gradient boosting as XGBoost, LightGBM and CatBoost write it, with values that are missing too. Yields (name, write)."""
import catboost
import lightgbm
import numpy
import onnx
import xgboost
from onnxmltools import convert_lightgbm, convert_xgboost
from onnxmltools.convert.common.data_types import FloatTensorType
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris


def boosters():
    two, three, real = (f(return_X_y=True) for f in (load_breast_cancer, load_iris, load_diabetes))
    holes = (numpy.where(numpy.random.RandomState(0).rand(*two[0].shape) < 0.1, numpy.nan, two[0]), two[1])

    def converted(convert, estimator, data, **more):
        def write(path):
            estimator.fit(*data)
            onnx.save(convert(estimator, initial_types=[('x', FloatTensorType([None, data[0].shape[1]]))], **more), path)
        return write

    x = dict(n_estimators=30)
    yield 'xgboost_two', converted(convert_xgboost, xgboost.XGBClassifier(**x), two)
    yield 'xgboost_missing', converted(convert_xgboost, xgboost.XGBClassifier(**x), holes)
    yield 'xgboost_three', converted(convert_xgboost, xgboost.XGBClassifier(**x), three)
    yield 'xgboost_real', converted(convert_xgboost, xgboost.XGBRegressor(**x), real)
    yield 'xgboost_counts', converted(convert_xgboost, xgboost.XGBRegressor(objective='count:poisson', **x), real)
    g = dict(n_estimators=30, verbose=-1)
    yield 'lightgbm_two', converted(convert_lightgbm, lightgbm.LGBMClassifier(**g), two, zipmap=False)
    yield 'lightgbm_missing', converted(convert_lightgbm, lightgbm.LGBMClassifier(**g), holes, zipmap=False)
    yield 'lightgbm_three', converted(convert_lightgbm, lightgbm.LGBMClassifier(**g), three, zipmap=False)
    yield 'lightgbm_real', converted(convert_lightgbm, lightgbm.LGBMRegressor(**g), real)
    yield 'lightgbm_parts', converted(convert_lightgbm, lightgbm.LGBMRegressor(**g), real, split=10)
    for name, data in (('real', real), ('missing', (holes[0], holes[1].astype(float)))):
        model = catboost.CatBoostRegressor(iterations=30, verbose=0, allow_writing_files=False)
        yield 'catboost_' + name, lambda path, model=model, data=data: model.fit(*data).save_model(path, format='onnx')
